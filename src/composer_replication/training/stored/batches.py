"""Endless batches of stored traces in shuffled passes, from a random generator of their own; the place can be saved."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from .collator import Batch, ComposerDataCollator
from .examples import TraceExample


class StoredBatches:
    """Processes take turns: each gets every `world`-th batch."""

    def __init__(
        self,
        examples: Sequence[TraceExample],
        collator: ComposerDataCollator,
        size: int,
        seed: int,
        rank: int = 0,
        world: int = 1,
    ) -> None:
        self._examples, self._collator, self._size, self._world = examples, collator, size, world
        self._rng = random.Random(f"stored:{seed}")
        self._next, self._drawn = rank, 0
        self._waiting: list[list[TraceExample]] = []

    def __iter__(self) -> StoredBatches:
        return self

    def __next__(self) -> Batch:
        batch = self._take(self._next)
        self._next += self._world
        return self._collator(batch)

    def state(self) -> dict[str, Any]:
        return {"next": self._next}

    def load(self, state: dict[str, Any]) -> None:
        self._next = state["next"]

    def _take(self, number: int) -> list[TraceExample]:
        while self._drawn + len(self._waiting) <= number:
            order = self._rng.sample(self._examples, len(self._examples))
            self._waiting += [order[start : start + self._size] for start in range(0, len(order), self._size)]
        self._waiting = self._waiting[number - self._drawn :]
        self._drawn = number
        return self._waiting[0]
