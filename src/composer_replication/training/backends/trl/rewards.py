"""What a reward function returns, looked at before TRL makes a tensor of it: its errors name no function."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from torch import nn
from trl.trainer.utils import is_async_callable

from composer_replication.errors import UsageError


def checked(function: Any, name: str) -> Any:
    """`function`, refused where it does not return a number or None for each rollout. A reward model is as it was."""
    if isinstance(function, nn.Module):
        return function
    call = cast(Callable[..., Any], function)

    async def wait_and_look(*, prompts: list[Any], **columns: Any) -> list[Any]:
        return _rewards(await call(prompts=prompts, **columns), name, len(prompts))

    def look(*, prompts: list[Any], **columns: Any) -> list[Any]:
        return _rewards(call(prompts=prompts, **columns), name, len(prompts))

    return wait_and_look if is_async_callable(function) else look


def _rewards(returned: Any, name: str, number: int) -> list[Any]:
    wanted = f"return a list of {number} numbers, None where a rollout is not judged"
    is_series = isinstance(returned, Iterable) and not isinstance(returned, str | Mapping)
    # A tensor of no dimension says that it can be iterated over.
    if not is_series or getattr(returned, "ndim", 1) != 1:
        kind = type(returned).__name__
        raise UsageError(f"the reward function {name} returned {kind} for {number} rollouts", wanted)
    rewards = list(cast(Iterable[Any], returned))
    if len(rewards) != number:
        raise UsageError(f"the reward function {name} returned {len(rewards)} rewards for {number} rollouts", wanted)
    for row, reward in enumerate(rewards):
        if reward is not None and not hasattr(reward, "__float__"):
            raise UsageError(f"the reward function {name} returned {type(reward).__name__} for rollout {row}", wanted)
    return rewards
