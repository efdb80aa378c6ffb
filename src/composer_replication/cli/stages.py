"""The verbs that do one stage of a run: `recompose hint|train RUN`."""

from __future__ import annotations

from pathlib import Path

from .common import Json, run_one_stage


def hint(run: Path, /, *, json: Json = False) -> None:
    """Write a short hint for each error site of RUN."""
    run_one_stage(run, "hints", json)


def train(run: Path, /, *, json: Json = False) -> None:
    """Train the policy of RUN with three channels; the model goes to RUN/training/model."""
    run_one_stage(run, "training", json)
