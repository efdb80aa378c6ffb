"""What every backend shares: which tasks it trains on, which hints it gives, how it says where it is."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import islice
from typing import Any

from transformers import TrainerCallback

from composer_replication.config import Config
from composer_replication.environments.protocol import TRAIN, Environment, EnvironmentTask
from composer_replication.errors import UsageError
from composer_replication.objective import SdpoSettings
from composer_replication.progress import Progress

from .lessons.online_sites import TraceHinter
from .stored.records import TrainingStep

SHARE_WORTH_TELLING = 0.05


def training_tasks(environment: Environment, config: Config) -> list[EnvironmentTask]:
    """One for each prompt of the run. Where there are fewer, they come again, in another order each time."""
    needed, drawn = config.training.steps * config.training.prompts_per_step, random.Random(f"tasks:{config.seed}")
    tasks = environment.tasks(TRAIN, "training")
    if not isinstance(tasks, Sequence):
        return list(islice(tasks, needed))
    if not tasks:
        raise UsageError(f"{environment.name} has no task to train on", "give it more tasks, or hold fewer out")
    chosen: list[EnvironmentTask] = []
    while len(chosen) < needed:
        chosen += drawn.sample(tasks, len(tasks))
    return chosen[:needed]


def trace_hinter(config: Config) -> TraceHinter:
    hints, sdpo = config.hints, config.channel(SdpoSettings)
    return TraceHinter(hints.max_tokens, hints.max_leak_level, sham=sdpo.sham, sibling=sdpo.sibling_hints)


class ProgressCallback(TrainerCallback):
    """Says where training is."""

    def __init__(self, total: int, progress: Progress) -> None:
        self._total, self._progress = total, progress

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **kwargs: Any) -> None:
        if logs and "grad_norm" in logs:
            what = f"reward {logs['reward']:.2f}" if logs.get("reward") is not None else f"loss {logs['loss']:.3f}"
            waited = logs.get("rollout/environment_share", 0.0)
            if waited >= SHARE_WORTH_TELLING:
                what += f", {waited:.0%} of the rollouts' time in the environment"
            self._progress.step(state.global_step, self._total, what)


def step_of(entry: dict[str, Any]) -> TrainingStep | None:
    if "grad_norm" not in entry:
        return None
    return TrainingStep(
        step=entry["step"],
        policy=float(entry.get("channel/policy", entry["loss"])),
        grad_norm=float(entry["grad_norm"]),
        channels={
            name.removeprefix("channel/"): value
            for name, value in entry.items()
            if name.startswith("channel/") and name != "channel/policy"
        },
        reward=entry.get("reward"),
        entropy=entry.get("entropy"),
        flat_groups=entry.get("frac_reward_zero_std"),
    )
