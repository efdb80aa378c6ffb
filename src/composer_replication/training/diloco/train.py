"""The TRL backend as one replica of several. Each replica has tasks and samples of its own: its seed says which."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from composer_replication.config import Config
from composer_replication.environments.protocol import Environment
from composer_replication.progress import Progress

from ..metrics import StepLines
from ..models.loading import Policy
from ..stored.examples import TraceExample
from ..stored.records import TrainingStep
from ..train import train as train_alone
from .meeting import replica_number
from .replica import Replica

SEEDS_APART = 100_003
FEW_MEETINGS = 50
"""The papers' runs have hundreds. Over 7 and over 28, Nesterov's step did worse than the average."""


def of_this_replica(config: Config) -> Config:
    """With one seed, the replicas would play the same tasks with the same samples: twice the cost of one."""
    return config.model_copy(update={"seed": config.seed + SEEDS_APART * replica_number()})


def overshoots(config: Config) -> str | None:
    settings, meetings = config.diloco, config.training.steps // config.diloco.sync_every
    if not settings.outer_momentum or meetings >= FEW_MEETINGS:
        return None
    return (
        f"Nesterov's outer step overshoots in a run of {meetings} meetings: take the plain average, "
        "[diloco] outer_learning_rate = 1.0 and outer_momentum = 0.0"
    )


def train(
    policy: Policy,
    config: Config,
    environment: Environment,
    examples: Sequence[TraceExample],
    folder: Path,
    progress: Progress,
) -> list[TrainingStep]:
    """With the config of this replica."""
    if warning := overshoots(config):
        progress.note(warning)
    replica = Replica(config, folder, progress)
    try:
        return train_alone(policy, config, environment, examples, folder, progress, callbacks=[replica])
    finally:
        replica.close()


def summary(folder: Path) -> dict[str, int]:
    """For the counts of the stage."""
    lines = StepLines(folder / "diloco.jsonl").read()
    return {
        "replica": replica_number(),
        "windows": lines[-1]["window"],
        "lost": sum(not line["committed"] for line in lines),
        **{key: lines[-1][key] for key in ("summed_bytes", "state_bytes")},
    }
