"""Environments that act on text: the policy writes a turn, the environment answers, and in the end there is a reward.

A malformed turn is an answer like any other: the environment says what was wrong, marks it in its trace and lets the
conversation go on or end. Only what breaks the environment itself may raise; the worker turns that into an error turn.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import NamedTuple, Protocol

from composer_replication.records import Message, Source, Trace, Turn, content_id, family_of


class Answered(Protocol):
    """What a turn led to. `observation` is what the policy reads next; None after it said that it is done."""

    @property
    def observation(self) -> str | None: ...


class TextEnvironment(Protocol):
    """One episode. `step` may be a coroutine; `close()` is called after the trace was taken, where there is one."""

    @property
    def messages(self) -> Sequence[Message]:
        """The conversation that the first turn answers."""
        ...

    @property
    def finished(self) -> bool: ...

    @property
    def reward(self) -> float: ...

    def step(self, text: str) -> Answered | Awaitable[Answered]: ...

    def trace(self, source_model: str, sample: int) -> Trace:
        """One `Turn` per step, failed ones with `is_error`, so that the detectors find them."""
        ...


class PlainTurn(NamedTuple):
    """What was written and answered. `failed` marks an answer that the worker gave for a broken environment."""

    text: str
    answer: str | None
    failed: bool


class BrokenEnvironment:
    """Stands in for an environment that could not be built, so that its row keeps its place in the batch."""

    def __init__(self, messages: Sequence[Message], error: Exception) -> None:
        self.messages, self._error = messages, error
        self.finished, self.reward = False, 0.0

    def step(self, text: str) -> Answered:
        raise self._error

    def trace(self, source_model: str, sample: int) -> Trace:
        return plain_trace(self.messages, [], source_model, sample)


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
    messages, spans = list(trace.messages), list(trace.turns)
    for turn in turns:
        start = len(messages)
        messages.append({"role": "assistant", "content": turn.text})
        if turn.answer is not None:
            answer: Message = {"role": "tool", "content": turn.answer}
            messages.append({**answer, "is_error": True} if turn.failed else answer)
        spans.append(Turn(start=start, end=len(messages), source_model=source_model, family=family_of(source_model)))
    return trace.model_copy(
        update={
            "trace_id": content_id(trace.trace_id, [list(turn) for turn in turns]),
            "messages": tuple(messages),
            "turns": tuple(spans),
        }
    )
