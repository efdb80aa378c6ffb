"""A trace as rows of token ids, and the windows of a turn's context in them.

A row is cut at the starts of its turns only: from one start to the next is a turn, what followed it, and the header of
the next. So a row without some of these stretches is the conversation without those turns.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

from composer_replication.environments.calls import Call, marked
from composer_replication.pairs.sides import same_turn
from composer_replication.records import Message, ToolCall, Trace
from composer_replication.windows import Cut, TurnHistory, kept_turns

from ..models.tokens import ChatTokens
from .records import TokenizedTrace


class CannotRenderError(Exception):
    """The chat template refuses a conversation."""


class Context(NamedTuple):
    """What the policy reads before a turn. Without a cut it is the beginning of `row`."""

    ids: list[int]
    row: TokenizedTrace
    cut: Cut


class TurnLine(NamedTuple):
    """A row that holds a turn, as one of its spans."""

    row: TokenizedTrace
    place: int
    needed: frozenset[int] = frozenset()
    """Earlier spans that no window may drop."""
    may_drop: bool = True
    elided: Sequence[int] = ()
    """Messages that lost their middle: in the opening, then from the start of each span on."""
    cut: Cut = Cut()
    """What was left out before the row was rendered."""

    @property
    def whole_tokens(self) -> int:
        return self.row.turn_spans[self.place][0] + self.cut.tokens

    def context(self, room: int, whole_tokens: int) -> Context | None:
        """In at most `room` tokens, of `whole_tokens` that the actor saw."""
        starts = [start for start, _ in self.row.turn_spans[: self.place + 1]]
        turns = list(pairwise(starts))
        kept = kept_turns([end - start for start, end in turns], room - starts[0], self.needed)
        if kept is None or starts[0] > room or (len(kept) < len(turns) and not self.may_drop):
            return None
        ids = list(self.row.ids[: starts[0]])
        for place in kept:
            ids += self.row.ids[slice(*turns[place])]
        elided = sum(self.elided[place] for place in (0, *(1 + place for place in kept))) if self.elided else 0
        dropped = self.cut.turns + len(turns) - len(kept)
        return Context(ids, self.row, Cut(dropped, self.cut.elided_messages + elided, whole_tokens - len(ids)))


class TraceTokens(Protocol):
    trace_id: str
    reward: float

    @property
    def rollouts(self) -> Sequence[TokenizedTrace]:
        """The whole of it, where it was sampled: a row for each segment."""
        ...

    @property
    def unknown_id(self) -> int | None:
        """Stands for words that the vocabulary lacks; nothing with it is trained on."""
        ...

    def own(self, turn: int) -> list[int]: ...

    def numbers(self, row: TokenizedTrace) -> Sequence[int]:
        """Which turns of the trace the spans of the row are; none where it may be the row of a single state."""
        ...

    def wrote(self, turn: int, message: Message) -> bool:
        """Whether the turn is that message, so that its own ids say it."""
        ...

    def written(self, message: Message) -> list[int]:
        """A turn of somebody else."""
        ...

    def lines(self, turn: int, extra: int) -> Iterator[TurnLine]:
        """Rows with the turn, the fullest first. `extra` tokens are needed behind the context."""
        ...


def fitting_context(source: TraceTokens, turn: int, extra: int, max_tokens: int) -> Context | None:
    whole_tokens: int | None = None
    for line in source.lines(turn, extra):
        whole_tokens = line.whole_tokens if whole_tokens is None else whole_tokens
        if found := line.context(max_tokens - extra, whole_tokens):
            return found
    return None


class StoredTokens:
    """A rollout: ids as they were sampled, never rendered again, so its windows drop whole turns alone."""

    unknown_id = None

    def __init__(
        self, tokens: ChatTokens, rows: Sequence[TokenizedTrace], trace: Trace | None, failed: set[str]
    ) -> None:
        self._tokens, self._trace, self._failed = tokens, trace, failed
        self.trace_id, self.reward, self.rollouts = rows[0].trace_id, rows[0].reward, rows
        self._place_of = {turn: (row, place) for row in rows for turn, place in row.places.items()}

    def own(self, turn: int) -> list[int]:
        row, place = self._place_of[turn]
        return list(row.ids[slice(*row.turn_spans[place])])

    def numbers(self, row: TokenizedTrace) -> Sequence[int]:
        return list(row.places)

    def wrote(self, turn: int, message: Message) -> bool:
        return self._trace is None or same_turn(self._trace.messages[self._trace.turns[turn].start], message)

    def written(self, message: Message) -> list[int]:
        try:
            return self._tokens.turn(policy_text(message))
        except (ValueError, RecursionError) as error:
            raise CannotRenderError from error

    def lines(self, turn: int, extra: int) -> Iterator[TurnLine]:
        row, place = self._place_of[turn]
        if self._trace is None or row.turns:
            # The spans of one segment among several are not the turns of the trace's history.
            yield TurnLine(row, place, may_drop=not row.turns)
            return
        yield TurnLine(row, place, TurnHistory.before(self._trace, turn, self._failed).needed)


def policy_text(message: Message) -> str:
    """Its call as compact JSON, several each between marks, or its text."""
    calls = [_call(call) for call in message.get("tool_calls", [])]
    if len(calls) > 1:
        return "\n".join(map(marked, calls))
    return calls[0].render() if calls else message["content"]


def _call(call: ToolCall) -> Call:
    arguments: dict[str, Any] = json.loads(call["function"]["arguments"])
    return Call(call["function"]["name"], arguments)
