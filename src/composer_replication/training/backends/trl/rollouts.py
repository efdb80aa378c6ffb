"""Rollouts of any text environment for TRL: what `GRPOTrainer(rollout_func=…)` calls, and the columns that it gets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import torch

from composer_replication.records import Trace

from ...models.states import evaluating
from ...rollouts.text_environment import BrokenEnvironment, TextEnvironment
from ...rollouts.worker import Rollout, RolloutWorker

A = TypeVar("A")
B = TypeVar("B")
Column = Callable[[Rollout[Any]], Any]
Watcher = Callable[[Sequence[Rollout[Any]], Sequence[Trace], int], Mapping[str, list[Any]]]
"""Rollouts, their traces and the number of the step -> further columns."""
RolloutFunction = Callable[[list[Any], Any], dict[str, list[Any]]]


def rollout_function(
    worker: RolloutWorker,
    environment_of: Callable[[Any], TextEnvironment],
    *,
    source_model: str,
    generator: torch.Generator | None = None,
    columns: Mapping[str, Column] | None = None,
    watcher: Watcher | None = None,
) -> RolloutFunction:
    """TRL's `rollout_func`. `environment_of` builds a fresh environment for a prompt; `columns` adds reward columns.
    `watcher` sees the rollouts of a step together before their environments are closed, and may add columns too.

    `env_mask` is 1 on sampled tokens. `episode_reward`, `truncated` and `step_failure` (a kind or None) reach the
    reward functions; `trace` reaches the trainer. There is one row per prompt, whatever its environment did.
    """
    concurrency = worker.settings.max_concurrency

    def roll_out(prompts: list[Any], trainer: Any) -> dict[str, list[Any]]:
        episodes = _map(lambda prompt: _build(environment_of, prompt), prompts, concurrency)
        try:
            with evaluating(trainer.accelerator.unwrap_model(trainer.model)) as model:
                worker.sampler.refresh(model)
                rollouts = worker.run(episodes, generator)
            made = rollout_columns(rollouts, source_model)
            made |= {name: [column(rollout) for rollout in rollouts] for name, column in (columns or {}).items()}
            return made if watcher is None else {**made, **watcher(rollouts, made["trace"], _next_step(trainer))}
        finally:
            _map(_close, episodes, concurrency)

    return roll_out


def prompt_key(messages: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """What `environment_of` can find a task by."""
    return tuple(message["content"] for message in messages)


def rollout_columns(rollouts: Sequence[Rollout[Any]], source_model: str) -> dict[str, list[Any]]:
    return {
        "prompt_ids": [rollout.prompt_ids for rollout in rollouts],
        "completion_ids": [rollout.completion_ids for rollout in rollouts],
        "logprobs": [rollout.logprobs for rollout in rollouts],
        "env_mask": [rollout.sampled_mask for rollout in rollouts],
        "episode_reward": [rollout.reward for rollout in rollouts],
        "truncated": [rollout.truncated for rollout in rollouts],
        "step_failure": [rollout.failure.kind if rollout.failure else None for rollout in rollouts],
        "trace": [rollout.trace(source_model, row) for row, rollout in enumerate(rollouts)],
    }


def _next_step(trainer: Any) -> int:
    return trainer.state.global_step + 1


def _build(environment_of: Callable[[Any], TextEnvironment], prompt: Any) -> TextEnvironment:
    try:
        return environment_of(prompt)
    except Exception as error:
        return BrokenEnvironment(prompt, error)


def _close(episode: TextEnvironment) -> None:
    close = getattr(episode, "close", None)
    if close is not None:
        close()


def _map(function: Callable[[A], B], items: Sequence[A], concurrency: int) -> list[B]:
    if not concurrency:
        return [function(item) for item in items]
    with ThreadPoolExecutor(concurrency) as pool:
        return list(pool.map(function, items))
