"""Toolbox episodes as rollouts. They answer at once, so their steps run inline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from composer_replication.config import Config
from composer_replication.environments.toolbox import Episode, ToolboxTask, trace_of
from composer_replication.records import Message, Trace

from ..lessons.online_sites import Rolled
from ..models.loading import Policy
from ..models.tokens import ChatTokens
from .sampling import DynamicSampler, TurnSampler
from .worker import Rollout, RolloutSettings, RolloutWorker

__all__ = ["Rollout", "ToolboxEpisode", "roll_out", "sample_rolled", "sample_rollouts"]


class ToolboxEpisode(Episode):
    """A toolbox episode as an environment that acts on text."""

    @property
    def messages(self) -> list[Message]:
        return self.task.messages

    def trace(self, source_model: str, sample: int) -> Trace:
        return trace_of(self, source_model, sample)


def roll_out(
    model: Any,
    tokens: ChatTokens,
    tasks: Sequence[ToolboxTask],
    *,
    max_turn_tokens: int,
    temperature: float,
    generator: torch.Generator | None = None,
    batch_size: int = 512,
    sampler: TurnSampler | None = None,
) -> list[Rollout[ToolboxEpisode]]:
    """One rollout per task. Without a `sampler`, turns are sampled from `model` in its own precision."""
    worker = RolloutWorker(
        sampler or DynamicSampler(model, tokens, batch_size),
        tokens,
        RolloutSettings(max_turn_tokens=max_turn_tokens, temperature=temperature),
    )
    rollouts: list[Rollout[ToolboxEpisode]] = []
    for start in range(0, len(tasks), batch_size):
        rollouts += worker.run([ToolboxEpisode(task) for task in tasks[start : start + batch_size]], generator)
    return rollouts


def sample_rollouts(
    policy: Policy, config: Config, tasks: Sequence[ToolboxTask], generator: torch.Generator | None = None
) -> list[Rollout[ToolboxEpisode]]:
    """One rollout per task, sampled as in training; without a `generator` from the config's seed."""
    return roll_out(
        policy.model,
        policy.tokens,
        tasks,
        max_turn_tokens=config.training.max_turn_tokens,
        temperature=config.training.temperature,
        generator=generator or torch.Generator(device=policy.model.device).manual_seed(config.seed),
    )


def sample_rolled(
    policy: Policy, config: Config, tasks: Sequence[ToolboxTask], generator: torch.Generator | None = None
) -> list[Rolled]:
    """The same as `find_online_sites` takes them."""
    return [
        Rolled(one.episode.trace(policy.name, row), one.prompt_ids, one.completion_ids, one.sampled_mask)
        for row, one in enumerate(sample_rollouts(policy, config, tasks, generator))
    ]
