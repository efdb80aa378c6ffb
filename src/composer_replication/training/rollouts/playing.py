"""Rollouts of any environment: to collect traces, to measure, to probe. Training plays through its backend."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count, cycle
from typing import Any, TypeVar

import torch

from composer_replication.config import Config
from composer_replication.environments.protocol import Environment, EnvironmentTask, Episode, EpisodeLimits
from composer_replication.progress import Progress, Silent

from ..lessons.online_sites import Rolled
from ..machine import free_bytes
from ..models.loading import Policy, device_type
from ..models.shape import shape_of
from ..models.tokens import ChatTokens
from ..planning.memory import MOST_AT_ONCE, cache_bytes
from .plain_traces import BrokenEpisode
from .sampling import DynamicSampler, TurnSampler
from .static_sampling import turn_sampler
from .worker import Rollout, RolloutSettings, RolloutWorker

A = TypeVar("A")
B = TypeVar("B")
T = TypeVar("T")


def repeated(tasks: Iterable[T]) -> Iterator[T]:
    """Tasks without end: those of an environment that has only some come again."""
    return cycle(tasks) if isinstance(tasks, Sequence) else iter(tasks)


def rollout_settings(limits: EpisodeLimits, max_turn_tokens: int, temperature: float) -> RolloutSettings:
    return RolloutSettings(
        max_turn_tokens=max_turn_tokens,
        temperature=temperature,
        max_completion_tokens=limits.completion_tokens,
        max_turns=limits.turns,
        max_concurrency=limits.concurrency,
        step_timeout_s=limits.step_timeout_s,
    )


def roll_out(
    model: Any,
    tokens: ChatTokens,
    environment: Environment,
    tasks: Sequence[EnvironmentTask],
    *,
    max_turn_tokens: int,
    temperature: float,
    generator: torch.Generator | None = None,
    batch_size: int = MOST_AT_ONCE,
    sampler: TurnSampler | None = None,
    progress: Progress | None = None,
) -> list[Rollout[Episode]]:
    """One rollout per task, in the order of the tasks.

    Args:
        model: `policy.model`.
        tokens: `policy.tokens`.
        batch_size: Rollouts that are played at a time.
        sampler: Who writes the turns; without it `model` as it is.
        progress: Is told of each rollout that has ended.
    """
    ended = count(1)
    worker = RolloutWorker(
        sampler or DynamicSampler(model, tokens, batch_size),
        tokens,
        rollout_settings(environment.limits, max_turn_tokens, temperature),
        lambda: (progress or Silent()).step(next(ended), len(tasks), "rollouts"),
    )
    rollouts: list[Rollout[Episode]] = []
    for start in range(0, len(tasks), batch_size):
        episodes = started(environment, tasks[start : start + batch_size])
        try:
            rollouts += worker.run(episodes, generator)
        finally:
            closed(environment, episodes)
    return rollouts


def play_tasks(
    policy: Policy,
    environment: Environment,
    config: Config,
    tasks: Sequence[EnvironmentTask],
    *,
    temperature: float,
    generator: torch.Generator | None = None,
    progress: Progress | None = None,
) -> list[Rollout[Episode]]:
    """One rollout per task, as many at a time as `hardware.rollouts_at_once` says, else 512.

    All that are played at a time draw from one generator, so their number decides what a seed gives. Free memory lowers
    it only where 512 do not fit and nothing is set, and that is told.

    On a GPU they are sampled in bfloat16, as in training, from a copy of the weights only if those are in float32.
    """
    if not tasks:
        return []
    training, model, tokens = config.training, policy.model, policy.tokens
    longest = max(len(tokens.prompt(task.messages)) for task in tasks)
    room = longest + environment.limits.room(training.max_turn_tokens)
    rows = config.hardware.rollouts_at_once or rows_that_fit(model, room, len(tasks))
    if not config.hardware.rollouts_at_once and rows < min(len(tasks), MOST_AT_ONCE):
        (progress or Silent()).note(
            f"{rows} rollouts of {room:,} tokens at a time, as half of the free memory holds no more: a machine that "
            f"holds more samples others from the same seed, unless hardware.rollouts_at_once = {rows} is set there too"
        )
    return roll_out(
        model,
        tokens,
        environment,
        tasks,
        max_turn_tokens=training.max_turn_tokens,
        temperature=temperature,
        generator=generator,
        batch_size=rows,
        sampler=turn_sampler(model, tokens, rows, room, is_fixed=True),
        progress=progress,
    )


def rows_that_fit(model: Any, room: int, wanted: int) -> int:
    """How many rollouts of `room` tokens may have their keys and values in half of the memory that is free."""
    row_bytes = cache_bytes(shape_of(model.config), room, 1, 2 if device_type() == "cuda" else model.dtype.itemsize)
    rows = min(wanted, MOST_AT_ONCE)
    while rows > 1 and rows * row_bytes > free_bytes() // 2:
        rows = rows // 2
    return rows


def sample_rollouts(
    policy: Policy,
    environment: Environment,
    config: Config,
    tasks: Sequence[EnvironmentTask],
    generator: torch.Generator | None = None,
    progress: Progress | None = None,
) -> list[Rollout[Episode]]:
    """One rollout per task, sampled as in training; without a `generator` from the config's seed."""
    return play_tasks(
        policy,
        environment,
        config,
        tasks,
        temperature=config.training.temperature,
        generator=generator or torch.Generator(device=policy.model.device).manual_seed(config.seed),
        progress=progress,
    )


def sample_rolled(
    policy: Policy,
    environment: Environment,
    config: Config,
    tasks: Sequence[EnvironmentTask],
    generator: torch.Generator | None = None,
) -> list[Rolled]:
    """The same as `find_online_sites` takes them."""
    return [
        one.rolled(one.row_trace(policy.name, row))
        for row, one in enumerate(sample_rollouts(policy, environment, config, tasks, generator))
    ]


def started(environment: Environment, tasks: Sequence[EnvironmentTask]) -> list[Episode]:
    """One episode per task; one that cannot be started keeps its place and fails at its first turn."""

    def start(task: EnvironmentTask) -> Episode:
        try:
            return environment.start(task)
        except Exception as error:
            return BrokenEpisode(task, error)

    return mapped(start, tasks, environment.limits.concurrency)


def closed(environment: Environment, episodes: Sequence[Episode]) -> None:
    mapped(lambda episode: episode.close(), episodes, environment.limits.concurrency)


def mapped(function: Callable[[A], B], items: Sequence[A], concurrency: int) -> list[B]:
    """In as many threads as an environment allows, in the order of the items."""
    if not concurrency:
        return [function(item) for item in items]
    with ThreadPoolExecutor(concurrency) as pool:
        return list(pool.map(function, items))
