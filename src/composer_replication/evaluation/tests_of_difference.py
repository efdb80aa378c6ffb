"""Tests of a difference between two arms. Reads numbers per unit (seed, task or cluster), writes p values.

Each exact test says the smallest p that it can reach with the data's size: with 5 seeds a two-sided sign-flip cannot
come below 0.0625 whatever the effect, so it is no test at 0.05. A p value says nothing about the size of an effect.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .distributions import student_quantile, two_sided
from .stats import LEVEL, Estimate

ALPHA = round(1 - LEVEL, 6)
MOST_EXACT_FLIPS = 20
MOST_EXACT_SPLITS = 200_000
DRAWS = 20_000
CHUNK = 2_000_000
TOLERANCE = 1e-9


class Resampled(NamedTuple):
    """`floor` is the smallest p that values of these sizes can reach; `exact` where every case was counted."""

    p: float
    floor: float
    n: int
    exact: bool = True


class McNemar(NamedTuple):
    """`gained`: tasks that only the second arm solves; `lost`: tasks that only the first solves."""

    p: float
    floor: float
    n: int
    gained: int
    lost: int


class Welch(NamedTuple):
    """Second mean − first mean with a t interval; `n` of the estimate counts the units of both arms."""

    difference: Estimate
    p: float
    standard_error: float
    degrees: float


def sign_flip(differences: Sequence[float], seed: int = 0) -> Resampled:
    """Two-sided: under the null every difference is as likely with the other sign. All 2^n signs for n <= 20.

    Zeros count as no evidence.
    """
    if not differences:
        raise ValueError("a sign-flip test needs at least one difference")
    sizes = np.sort(np.abs(np.asarray(differences, dtype=np.float64)))
    observed = abs(math.fsum(differences))
    enough = observed - TOLERANCE * float(sizes.sum())
    moved = sizes[sizes > 0]
    if not len(moved):
        return Resampled(1.0, 1.0, len(differences))
    if len(moved) <= MOST_EXACT_FLIPS:
        sums = moved[:1]
        for size in moved[1:]:
            sums = np.concatenate([sums + size, sums - size])
        return Resampled(float(np.mean(np.abs(sums) >= enough)), 2.0 ** (1 - len(moved)), len(differences))
    rng, reached = np.random.default_rng(seed), 0
    for draws in _chunks(DRAWS, len(moved)):
        signs = rng.integers(0, 2, size=(draws, len(moved)), dtype=np.int8) * 2 - 1
        reached += int(np.sum(np.abs(signs @ moved) >= enough))
    return Resampled((1 + reached) / (1 + DRAWS), 1 / (1 + DRAWS), len(differences), exact=False)


def mcnemar(first: Sequence[float], second: Sequence[float]) -> McNemar:
    """Exact, two-sided, on paired 0/1 outcomes: only tasks that the arms solve differently carry evidence."""
    pairs = list(zip(first, second, strict=True))
    if any(value not in (0, 1) for pair in pairs for value in pair):
        raise ValueError("McNemar's test is for outcomes that are 0 or 1")
    gained, lost = sum(b > a for a, b in pairs), sum(b < a for a, b in pairs)
    discordant = gained + lost
    tail = sum(math.comb(discordant, k) for k in range(min(gained, lost) + 1))
    p = min(1.0, 2 * tail / 2**discordant)
    return McNemar(p, min(1.0, 2.0 ** (1 - discordant)), len(pairs), gained, lost)


def welch(first: Sequence[float], second: Sequence[float]) -> Welch:
    """Unequal variances; the two arms share nothing."""
    if min(len(first), len(second)) < 2:
        raise ValueError("Welch's test needs at least two values on each side")
    parts = [float(np.var(np.sort(values), ddof=1)) / len(values) for values in (first, second)]
    mean = math.fsum(second) / len(second) - math.fsum(first) / len(first)
    error, n = math.sqrt(sum(parts)), len(first) + len(second)
    if error == 0:
        return Welch(Estimate(mean=mean, lo=mean, hi=mean, n=n), 1.0 if mean == 0 else 0.0, 0.0, n - 2)
    degrees = sum(parts) ** 2 / (parts[0] ** 2 / (len(first) - 1) + parts[1] ** 2 / (len(second) - 1))
    half = student_quantile((1 + LEVEL) / 2, degrees) * error
    difference = Estimate(mean=mean, lo=mean - half, hi=mean + half, n=n)
    return Welch(difference, two_sided(mean / error, degrees), error, degrees)


def permutation(first: Sequence[float], second: Sequence[float], seed: int = 0) -> Resampled:
    """Two-sided permutation of Welch's statistic: exact where the arms are alike, right for large n if spreads differ.

    Every split of the values is counted where there are at most 200,000, else 20,000 random ones.
    """
    if min(len(first), len(second)) < 2:
        raise ValueError("a permutation test needs at least two values on each side")
    pooled = np.sort(np.asarray([*first, *second], dtype=np.float64))
    few, n = min(len(first), len(second)), len(pooled)
    observed = float(_statistics(np.asarray([sorted(first)]), np.asarray([sorted(second)]))[0])
    if math.comb(n, few) <= MOST_EXACT_SPLITS:
        chosen = np.array(list(combinations(range(n), few)))
        found = _split_statistics(pooled, chosen)
        floor = float(np.mean(found >= found.max() * (1 - TOLERANCE)))
        return Resampled(float(np.mean(found >= observed * (1 - TOLERANCE))), floor, n)
    rng, reached = np.random.default_rng(seed), 0
    for draws in _chunks(DRAWS, n):
        chosen = np.argsort(rng.random((draws, n)), axis=1)[:, :few]
        reached += int(np.sum(_split_statistics(pooled, chosen) >= observed * (1 - TOLERANCE)))
    return Resampled((1 + reached) / (1 + DRAWS), 1 / (1 + DRAWS), n, exact=False)


def holm(ps: Sequence[float]) -> list[float]:
    """Adjusted p values in the order given; reject those <= alpha, and the whole family errs at most alpha."""
    adjusted, largest = [0.0] * len(ps), 0.0
    for rank, index in enumerate(sorted(range(len(ps)), key=lambda i: ps[i])):
        largest = max(largest, min(1.0, (len(ps) - rank) * ps[index]))
        adjusted[index] = largest
    return adjusted


def _split_statistics(pooled: NDArray[np.float64], chosen: NDArray[np.int64]) -> NDArray[np.float64]:
    inside = np.zeros((len(chosen), len(pooled)), dtype=bool)
    np.put_along_axis(inside, chosen, True, axis=1)
    tiled = np.broadcast_to(pooled, inside.shape)
    return _statistics(tiled[inside].reshape(len(chosen), -1), tiled[~inside].reshape(len(chosen), -1))


def _statistics(first: NDArray[np.float64], second: NDArray[np.float64]) -> NDArray[np.float64]:
    """The absolute value of Welch's t for each row; infinite where the sides differ and neither varies."""
    difference = np.abs(second.mean(axis=1) - first.mean(axis=1))
    error = np.sqrt(first.var(axis=1, ddof=1) / first.shape[1] + second.var(axis=1, ddof=1) / second.shape[1])
    size = float(np.abs(first).max(initial=0) + np.abs(second).max(initial=0)) * TOLERANCE
    difference[difference <= size] = 0
    return np.divide(difference, error, out=np.where(difference > 0, np.inf, 0.0), where=error > size)


def _chunks(draws: int, width: int) -> list[int]:
    at_once = max(1, CHUNK // width)
    return [min(at_once, draws - start) for start in range(0, draws, at_once)]
