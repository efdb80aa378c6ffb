"""`recompose hint RUN`"""

from __future__ import annotations

from .common import Json, RunFolder, Workers, run_one_stage


def hint(run: RunFolder, /, *, workers: Workers = None, json: Json = False) -> None:
    """Write a short hint for each error site of RUN."""
    run_one_stage(run, "hints", json, workers=workers)
