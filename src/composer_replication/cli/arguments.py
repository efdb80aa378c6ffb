"""Arguments that many verbs take; apart from what verbs share, so that those that only look load no stage."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter, validators

RunFolder = Annotated[Path, Parameter(help="A run folder.")]
Json = Annotated[bool, Parameter(name="--json", negative="", help="Print one JSON object.")]
Workers = Annotated[
    int | None,
    Parameter(help="Processes to work in; as many as cores without it.", validator=validators.Number(gte=1)),
]
Set = Annotated[
    tuple[str, ...],
    Parameter(name="--set", negative="", help="KEY=VALUE, such as training.steps=40; may be given often."),
]
