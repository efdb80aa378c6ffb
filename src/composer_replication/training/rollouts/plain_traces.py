"""Traces of rollouts whose environment could not give one, and the stand-in for one that could not be built."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from composer_replication.environments.protocol import Answer, EnvironmentTask
from composer_replication.records import Message, Source, Trace, content_id, turns_of


class PlainTurn(NamedTuple):
    """What was written and answered. `failed` marks an answer that the worker gave for a broken environment."""

    text: str
    answer: str | None
    failed: bool


class BrokenEpisode:
    """Stands in for an episode that could not be started, so that its row keeps its place in the batch."""

    tools = ()
    evidence = None
    finished = False
    reward = 0.0

    def __init__(self, task: EnvironmentTask, error: Exception) -> None:
        self.task, self._error = task, error

    @property
    def messages(self) -> Sequence[Message]:
        return self.task.messages

    def step(self, turn: str) -> Answer:
        raise self._error

    def trace(self, source_model: str, sample: int) -> Trace:
        return plain_trace(self.messages, [], source_model, sample)

    def close(self) -> None:
        """Nothing was opened."""


def plain_trace(messages: Sequence[Message], turns: Sequence[PlainTurn], source_model: str, sample: int) -> Trace:
    """A trace from nothing but texts."""
    trace = Trace(
        trace_id=content_id("rollout", source_model, sample, list(messages)),
        source=Source(agent="rollout"),
        messages=tuple(messages),
        turns=(),
        outcome=0.0,
    )
    return with_turns(trace, turns, source_model)


def with_turns(trace: Trace, turns: Sequence[PlainTurn], source_model: str) -> Trace:
    """`trace` with more turns at its end."""
    messages = list(trace.messages)
    for turn in turns:
        messages.append({"role": "assistant", "content": turn.text})
        if turn.answer is not None:
            answer: Message = {"role": "tool", "content": turn.answer}
            messages.append({**answer, "is_error": True} if turn.failed else answer)
    return trace.model_copy(
        update={
            "trace_id": content_id(trace.trace_id, [list(turn) for turn in turns]),
            "messages": tuple(messages),
            "turns": (*trace.turns, *turns_of(messages, len(trace.messages), source_model)),
        }
    )
