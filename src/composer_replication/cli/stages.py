"""The verbs that do one stage of a run: `recompose hint|replay|pair|train RUN`."""

from __future__ import annotations

from pathlib import Path

from .common import Json, run_one_stage


def hint(run: Path, /, *, json: Json = False) -> None:
    """Write a short hint for each error site of RUN."""
    run_one_stage(run, "hints", json)


def replay(run: Path, /, *, json: Json = False) -> None:
    """Ask the teachers what they would have done at the error sites of RUN.

    Teachers are simulated unless the run's config names models at a loopback server.
    """
    run_one_stage(run, "replay", json)


def pair(run: Path, /, *, json: Json = False) -> None:
    """Turn the teachers' votes of RUN into preference pairs."""
    run_one_stage(run, "pairs", json)


def train(run: Path, /, *, json: Json = False) -> None:
    """Train the policy of RUN with three channels; the model goes to RUN/training/model."""
    run_one_stage(run, "training", json)
