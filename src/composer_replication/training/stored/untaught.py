"""Turns that no error site is about, read again while a policy learns from stored traces alone.

There no reward tells that a policy falls apart. So a few such turns are chosen before the first step, and the log of
the run has how much likelier they are since, in nats per token: `untaught/shift`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from ..models.states import evaluating, turn_logprob
from .examples import TraceExample

MOST_TURNS = 8
"""Each from another row."""
CONTEXT_TOKENS = 256
FEWEST_TOKENS, MOST_TOKENS = 4, 64
READINGS = 20
"""In a run, at most, and one in two steps: together a few hundredths of its time."""


class UntaughtTurns:
    def __init__(self, model: Any, examples: Sequence[TraceExample]) -> None:
        """`model` is the policy before its first step."""
        self._turns = _chosen(examples)
        self._start = self._mean(model)
        self._read_at = 0

    def shift(self, model: Any, step: int, steps: int) -> float | None:
        """None where it is not due, and where every turn is an error site."""
        if not self._turns or step == self._read_at or step % max(2, math.ceil(steps / READINGS)):
            return None
        self._read_at = step
        return self._mean(model) - self._start

    def _mean(self, model: Any) -> float:
        with evaluating(model):
            total = sum(turn_logprob(model, turn.context, turn.ids) for turn in self._turns)
        return total / max(1, sum(len(turn.ids) for turn in self._turns))


class _Turn(NamedTuple):
    context: list[int]
    ids: list[int]


def _chosen(examples: Sequence[TraceExample]) -> list[_Turn]:
    """From all over the data: the first of each of as many stretches."""
    ends = [len(examples) * number // MOST_TURNS for number in range(MOST_TURNS + 1)]
    stretches = [range(start, end) for start, end in pairwise(ends)]
    found = [next((turn for place in stretch for turn in _untaught(examples[place])), None) for stretch in stretches]
    return [turn for turn in found if turn]


def _untaught(example: TraceExample) -> Iterator[_Turn]:
    own = [*example.response_mask, 0]
    for site in example.sites:
        own[site.start : site.end] = [0] * (site.end - site.start)
    edges = [place for place, (before, here) in enumerate(pairwise([0, *own])) if before != here]
    for start, end in zip(edges[::2], edges[1::2], strict=True):
        if start and end - start >= FEWEST_TOKENS:
            own_ids = example.ids[start : min(end, start + MOST_TOKENS)]
            yield _Turn(example.ids[max(0, start - CONTEXT_TOKENS) : start], own_ids)
