"""Endless batches of stored traces in shuffled passes, from a random generator of their own; the place can be saved.

Rows of a batch are padded to the longest, so where lengths differ much, examples of like length come together.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from .collator import Batch, ComposerDataCollator
from .example_file import StoredExamples
from .examples import TraceExample

SPREAD = 4
"""How many times as long as the shortest an example must be for batches to be grouped by length at all."""
SORTED_AT_ONCE = 50
"""Batches that are sorted together; the order of passes stays random beyond them."""


class RowPlace(NamedTuple):
    """Stands for an example that need not be in memory."""

    number: int
    longest_row: int


def row_places(examples: Sequence[TraceExample]) -> list[RowPlace]:
    is_stored = isinstance(examples, StoredExamples)
    lengths = examples.longest_rows if is_stored else [example.longest_row for example in examples]
    return list(map(RowPlace, range(len(lengths)), lengths))


def batches_of_like_length(order: Sequence[RowPlace], size: int, rng: random.Random) -> list[list[RowPlace]]:
    """Batches of a shuffled pass, the short one last."""
    lengths = [place.longest_row for place in order]
    if not lengths or max(lengths) <= SPREAD * min(lengths):
        return [list(order[start : start + size]) for start in range(0, len(order), size)]
    batches: list[list[RowPlace]] = []
    for first in range(0, len(order), size * SORTED_AT_ONCE):
        near = sorted(order[first : first + size * SORTED_AT_ONCE], key=lambda place: place.longest_row)
        # A short batch is made of the shortest, which cost least alone.
        short = len(near) % size
        cut = [near[start : start + size] for start in range(short, len(near), size)]
        rng.shuffle(cut)
        batches += [*cut, near[:short]] if short else cut
    return batches


class StoredBatches:
    """Endless batches of stored traces in shuffled passes, for the trainer's `batches`.

    Args:
        size: Examples of a batch.
        world: Number of processes. They take turns: each gets every `world`-th batch.
    """

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
        self._places, self._waiting = row_places(examples), list[list[RowPlace]]()
        self._traces: list[str] = []

    def __iter__(self) -> StoredBatches:
        return self

    def __next__(self) -> Batch:
        return self._collator(self.draw())

    def draw(self) -> list[TraceExample]:
        """The next batch before it is collated."""
        batch = self._take(self._next)
        self._next += self._world
        self._traces += [example.trace_id for example in batch]
        return batch

    @property
    def holds_sites(self) -> bool:
        """Whether channel 2 finds an error turn in any of them."""
        return any(example.sites for example in self._examples)

    def take_traces(self) -> list[str]:
        """Ids of the traces in all batches since it was last asked, each once."""
        traces, self._traces = sorted(set(self._traces)), []
        return traces

    def state(self) -> dict[str, Any]:
        """For a checkpoint; `load` goes on from there."""
        return {"next": self._next}

    def load(self, state: dict[str, Any]) -> None:
        self._next = state["next"]

    def _take(self, number: int) -> list[TraceExample]:
        while self._drawn + len(self._waiting) <= number:
            order = self._rng.sample(self._places, len(self._places))
            self._waiting += batches_of_like_length(order, self._size, self._rng)
        self._waiting = self._waiting[number - self._drawn :]
        self._drawn = number
        return [self._examples[place.number] for place in self._waiting[0]]


class LikeLengths:
    """Places of examples in the order of such batches, for a data loader; each epoch has an order of its own."""

    def __init__(self, examples: Sequence[TraceExample], size: int, seed: int) -> None:
        self._places, self._size, self._seed, self._epoch = row_places(examples), size, seed, 0

    def set_epoch(self, epoch: int) -> None:
        self._epoch = epoch

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[int]:
        rng = random.Random(f"stored:{self._seed}:{self._epoch}")
        order = rng.sample(self._places, len(self._places))
        return (one.number for batch in batches_of_like_length(order, self._size, rng) for one in batch)
