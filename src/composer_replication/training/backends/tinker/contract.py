"""What a server makes of the rows of a step. The API's contract is their sum; servers are known that average."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ...step.sampled import PulledRow

SUM = "the sum over tokens"


class RowSize(NamedTuple):
    tokens: int
    """Those that something predicts."""
    pulled: int
    """Those of them with a pull that is not 0."""


DIVISORS: dict[str, Callable[[RowSize, Sequence[RowSize]], float]] = {
    SUM: lambda own, rows: 1.0,
    "a mean over rows": lambda own, rows: len(rows),
    "a mean over the tokens of each row": lambda own, rows: own.tokens,
    "a mean over the tokens of each row, then over rows": lambda own, rows: own.tokens * len(rows),
    "a mean over all tokens": lambda own, rows: sum(row.tokens for row in rows),
    "a mean over the pulled tokens of each row": lambda own, rows: max(1, own.pulled),
    "a mean over all pulled tokens": lambda own, rows: max(1, sum(row.pulled for row in rows)),
}
"""By what a row is divided in a step of these rows."""
ROWS_TOGETHER = 16
"""Requests are filled up to a multiple of this with rows that pull at nothing: a server that compiles for each shape
would do so at every step."""


class Contract(NamedTuple):
    name: str = SUM

    def divisors(self, requests: Sequence[Sequence[PulledRow]]) -> list[list[float]]:
        """For each row of each request of a step, as they are sent."""
        sizes = [[_size(row) for row in rows] for rows in requests]
        step = [size for request in sizes for size in request]
        return [[DIVISORS[self.name](size, step) for size in request] for request in sizes]


def filled(rows: Sequence[PulledRow]) -> list[PulledRow]:
    return [*rows, *[idle(rows[0].ids)] * (-len(rows) % ROWS_TOGETHER)]


def idle(ids: list[int]) -> PulledRow:
    """A row that nothing pulls at."""
    return PulledRow(ids[:2], [0.0, 0.0], [0.0, 0.0])


def _size(row: PulledRow) -> RowSize:
    return RowSize(len(row.ids) - 1, sum(pull != 0 for pull in row.pulls[1:]))
