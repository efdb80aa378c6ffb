"""DAPO's dynamic sampling, which TRL lacks: a group whose rollouts all got one reward teaches nothing and is replaced.

Every process asks for as many fresh groups as the one that lost the most, so that all make the same calls. Groups that
turn out flat again stay, for another round or for good.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

import torch.nn.functional as F
from torch import Tensor

LEFT_PADDED = frozenset({"prompt_ids", "prompt_mask"})


class PromptStream:
    """Rows of the dataset in shuffled passes, from a random generator of their own; processes draw disjoint rows."""

    def __init__(self, dataset: Any, seed: int, rank: int = 0, world: int = 1) -> None:
        self._dataset, self._seed, self._rank, self._world = dataset, seed, rank, world
        self._drawn = 0
        self._pass, self._order = -1, list[int]()

    def draw(self, number: int) -> list[dict[str, Any]]:
        first = self._drawn + self._rank * number
        self._drawn += number * self._world
        return [self._row(place) for place in range(first, first + number)]

    def state(self) -> dict[str, Any]:
        return {"drawn": self._drawn}

    def load(self, state: dict[str, Any]) -> None:
        self._drawn = state["drawn"]

    def _row(self, place: int) -> dict[str, Any]:
        size = len(self._dataset)
        if place // size != self._pass:
            self._pass = place // size
            self._order = random.Random(f"refill:{self._seed}:{self._pass}").sample(range(size), size)
        return self._dataset[self._order[place % size]]


def flat_groups(rewards: Sequence[float], group_size: int) -> list[int]:
    """Groups in which every reward is the same."""
    groups = [rewards[start : start + group_size] for start in range(0, len(rewards), group_size)]
    return [number for number, group in enumerate(groups) if math.isclose(max(group), min(group), abs_tol=1e-8)]


def rows_of(groups: Sequence[int], group_size: int) -> list[int]:
    return [group * group_size + member for group in groups for member in range(group_size)]


def replace_rows(
    batch: dict[str, Any], fresh: dict[str, Any], into: Sequence[int], from_: Sequence[int], pad_id: int
) -> dict[str, Any]:
    """`batch` with rows `into` taken from rows `from_` of `fresh`; what is padded is padded to the wider of both."""
    merged = dict(batch)
    for key, value in batch.items():
        other = fresh.get(key)
        if isinstance(value, list):
            items: list[Any] = list(value)
            for place, source in zip(into, from_, strict=True):
                items[place] = fresh[key][source]
            merged[key] = items
        elif isinstance(value, Tensor) and isinstance(other, Tensor) and value.dim():
            merged[key] = _replace(key, value, other, into, from_, pad_id)
    return merged


def _replace(key: str, value: Tensor, other: Tensor, into: Sequence[int], from_: Sequence[int], pad_id: int) -> Tensor:
    if value.dim() == 2:
        width = max(value.shape[1], other.shape[1])
        fill = pad_id if key.endswith("_ids") else int(key == "tool_mask")
        value, other = (_pad(tensor, width, fill, key in LEFT_PADDED) for tensor in (value, other))
    replaced = value.clone()
    replaced[list(into)] = other[list(from_)]
    return replaced


def _pad(tensor: Tensor, width: int, fill: int, left: bool) -> Tensor:
    missing = width - tensor.shape[1]
    return F.pad(tensor, (missing, 0) if left else (0, missing), value=fill)
