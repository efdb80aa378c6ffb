"""An engine against the composite. `RECOMPOSE_PARITY=benchmarks/results make engines-verl` keeps the figures."""

from __future__ import annotations

import json
import os
from pathlib import Path


def keep(engine: str, **figures: float) -> None:
    print(engine, figures)
    if folder := os.environ.get("RECOMPOSE_PARITY"):
        (Path(folder) / f"{engine}_parity.json").write_text(json.dumps(figures, indent=1) + "\n")
