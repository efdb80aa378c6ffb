"""What a server makes of the rows of a step. The API's contract is their sum; servers are known that average."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ...step.sampled import PulledRow

SUM = "the sum over tokens"
DIVISORS: dict[str, Callable[[int, Sequence[int]], float]] = {
    SUM: lambda own, lengths: 1.0,
    "a mean over rows": lambda own, lengths: len(lengths),
    "a mean over the tokens of each row": lambda own, lengths: own,
    "a mean over the tokens of each row, then over rows": lambda own, lengths: own * len(lengths),
    "a mean over all tokens": lambda own, lengths: sum(lengths),
}
"""By what a row of so many tokens is divided in a step of rows of these lengths."""
ROWS_TOGETHER = 16
"""Requests are filled up to a multiple of this with rows that pull at nothing: a server that compiles for each shape
would do so at every step."""


class Contract(NamedTuple):
    name: str = SUM

    def divisor(self, own: int, lengths: Sequence[int]) -> float:
        return DIVISORS[self.name](own, lengths)


def filled(rows: Sequence[PulledRow]) -> list[PulledRow]:
    return [*rows, *[idle(rows[0].ids)] * (-len(rows) % ROWS_TOGETHER)]


def idle(ids: list[int]) -> PulledRow:
    """A row that nothing pulls at."""
    return PulledRow(ids[:2], [0.0, 0.0], [0.0, 0.0])


def predicted(rows: Sequence[PulledRow]) -> list[int]:
    """How many tokens each has that something predicts."""
    return [len(row.ids) - 1 for row in rows]
