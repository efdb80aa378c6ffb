"""The one policy for a context that is too long: the opening, the last whole turns and the hint stay.

    [system, tools, task] [turn 0, results] … [turn k, results] [hint] [turn]
     always kept           ───── dropped ────  as many as fit     kept  kept

A turn begins at its first sampled id and ends where the next one begins, so the assistant header before a dropped
stretch opens the turn behind it and the template stays whole. Teacher and student lose the same ids: what differs
between them is the hint alone. Turns are dropped whole; what does not fit without any earlier turn is skipped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple, TypeVar

from composer_replication.records import Hint

from ..models.tokens import ChatTokens
from .examples import PairTokens, SiteTokens, TraceExample
from .records import TokenizedTrace

Id = TypeVar("Id")


class Window(NamedTuple):
    """`ids[start:end]` is left out of a context."""

    start: int
    end: int
    dropped_turns: int

    @property
    def dropped_tokens(self) -> int:
        return self.end - self.start

    def apply(self, ids: Sequence[Id]) -> list[Id]:
        return [*ids[: self.start], *ids[self.end :]]


def fitting_window(turn_starts: Sequence[int], turn: int, needed_tokens: int, max_tokens: int) -> Window | None:
    """The fewest oldest turns before `turn` whose loss makes `needed_tokens` fit; None where none is enough."""
    for dropped in range(turn + 1):
        window = window_without(turn_starts, turn, dropped)
        if needed_tokens - window.dropped_tokens <= max_tokens:
            return window
    return None


def last_turns(turn_starts: Sequence[int], turn: int, keep: int) -> Window:
    """Everything but the `keep` turns before `turn` is dropped."""
    return window_without(turn_starts, turn, max(0, turn - keep))


def window_without(turn_starts: Sequence[int], turn: int, dropped: int) -> Window:
    return Window(turn_starts[0], turn_starts[min(dropped, turn)], dropped)


def windowed_site(
    tokens: ChatTokens, row: TokenizedTrace, turn: int, hint: Hint, max_tokens: int
) -> TraceExample | None:
    """A site of a long trace as an example of its own: the trace up to the turn, shortened for both sides alike."""
    start, end = row.turn_spans[turn]
    hinted = tokens.splice_hint(row.ids[:start], hint.text)
    window = fitting_window([begin for begin, _ in row.turn_spans], turn, len(hinted) + end - start, max_tokens)
    if window is None:
        return None
    ids, shift = window.apply(row.ids[:end]), window.dropped_tokens
    mask = [0] * (start - shift) + [1] * (end - start)
    # The hint stands before the last header, so it is spliced into what is left: a window never cuts it.
    site = SiteTokens(start - shift, end - shift, tokens.splice_hint(ids[: start - shift], hint.text))
    return TraceExample(ids, mask, row.reward, [site])


def windowed_pair(row: TokenizedTrace, turn: int, pair: PairTokens, max_tokens: int) -> PairTokens | None:
    """A pair whose prompt is shortened for both actions alike."""
    needed = len(pair.prompt) + max(len(pair.chosen), len(pair.rejected))
    window = fitting_window([begin for begin, _ in row.turn_spans], turn, needed, max_tokens)
    if window is None:
        return None
    # Reference log-probabilities hold for the prompt under which they were computed.
    return replace(pair, prompt=window.apply(pair.prompt), reference_chosen=0.0, reference_rejected=0.0)
