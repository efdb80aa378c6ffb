"""Episodes that play themselves: a program acts, and asks the policy for a turn whenever it wants one.

Whoever samples hands `play` a `Writer`. What the calls have in common is told by their token ids: a call that goes on
from an earlier one is a longer row of the same segment; any other begins a new segment, with a row of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from composer_replication.records import JsonObject, Message


class ContextFull(Exception):
    """The conversation leaves no room for another turn."""


class CallRefused(Exception):
    """What a program sent cannot be said to this policy."""


class NoTurn(Exception):
    """The program ended and the policy had written nothing for it. One may be an accident; all of them are not."""


class ModelCall(NamedTuple):
    """What a program sends to its model. Tools and calls stand in the messages as text."""

    messages: Sequence[Message]
    tools: Sequence[JsonObject] = ()
    behind: Sequence[int] = ()
    """Ids of the earlier call that this one goes on from, its turn included; none where it goes on from no call."""
    new: Sequence[Message] = ()
    """The messages that follow these ids."""
    max_tokens: int | None = None
    """Where the program asks for a shorter turn than others may be."""


class WrittenTurn(NamedTuple):
    prompt_ids: list[int]
    ids: list[int]
    logprobs: list[float]
    text: str
    """Without thoughts, with calls as text."""
    ended: bool
    """False where it was cut off at its limit of tokens."""


Writer = Callable[[ModelCall], WrittenTurn]
"""Blocks until the turn is written; called from many threads at once. Raises `ContextFull` and `CallRefused`."""


class TokenSegment(NamedTuple):
    """The `ids` of one segment of a trace. `turn_spans` are of the turns that this segment alone trains."""

    ids: list[int]
    turn_spans: list[tuple[int, int]]
    logprobs: list[float]
    """0 where nothing was sampled, and on turns that another segment trains."""
    turns: list[int]
    """Their numbers in the trace."""


@runtime_checkable
class SelfPlaying(Protocol):
    @property
    def segments(self) -> Sequence[TokenSegment]:
        """Known when `play` is over."""
        ...

    def play(self, write: Writer) -> None:
        """To its end. Blocks; `close` from another thread ends it early. Raises `NoTurn`, or `ContextFull` where not
        even the first turn fits."""
        ...
