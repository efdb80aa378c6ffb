"""What two calls do from a toolbox state, and whether a call is the right one. For votes and their calibration."""

from __future__ import annotations

import json
from collections.abc import Iterable

from composer_replication.records import TraceState

from .episode import Call, Episode, TurnResult
from .oracle import next_call
from .tasks import ToolboxTask
from .trace import prompt_key, replay_history
from .world import World


class ToolboxJudge:
    """Knows the tasks of some traces by their prompts. Answers None about any other state."""

    def __init__(self, tasks: Iterable[ToolboxTask]) -> None:
        self._tasks = {prompt_key(task.messages): task for task in tasks}

    def equivalent(self, state: TraceState, a: str, b: str) -> bool | None:
        """Whether both calls leave the same world behind and show the agent the same."""
        one, other = self._effect(state, a), self._effect(state, b)
        return None if one is None or other is None else one == other

    def is_right(self, state: TraceState, action: str) -> bool | None:
        """Whether the call does what the oracle would do next."""
        episode = self._episode(state)
        if episode is None or episode.finished:
            return None
        try:
            right = next_call(episode)
        except LookupError:
            return None
        return right is not None and self.equivalent(state, action, right.render()) is True

    def _effect(self, state: TraceState, action: str) -> tuple[World, str | None, bool] | None:
        episode = self._episode(state)
        if episode is None or episode.finished:
            return None
        call = json.loads(action)
        result: TurnResult = episode.step(Call(call["name"], call["arguments"]).render())
        return episode.world, result.observation, result.error is None

    def _episode(self, state: TraceState) -> Episode | None:
        task = self._tasks.get(prompt_key(state["messages"]))
        return replay_history(task, state["messages"]) if task else None
