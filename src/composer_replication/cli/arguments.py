"""Arguments that many verbs take; apart from what verbs share, so that those that only look load no stage."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

RunFolder = Annotated[Path, Parameter(help="A run folder.")]
Json = Annotated[bool, Parameter(name="--json", negative="", help="Print one JSON object.")]
