"""Bootstrap intervals. Reads values per task (and their cluster or seed), writes `Estimate`.

The result depends neither on the order of the values nor on which side is called first: values are sorted, and turned
over where their mirror image sorts higher. The bootstrap cannot see what was not sampled: with a handful of units, or
with values that hardly vary, the interval is too narrow, so every estimate is quoted with its `n`.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Sequence
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from .stats import LEVEL, Estimate, expanded_tails

RESAMPLES = 10_000
CHUNK = 2_000_000
Array = NDArray[np.float64]
NORMAL = NormalDist()


def bootstrap(
    values: Sequence[float],
    clusters: Sequence[Hashable] | None = None,
    *,
    expanded: bool = False,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Estimate:
    """95 % interval of the mean (BCa). Whole clusters are drawn where they are given; `n` counts what is drawn.

    `expanded` moves the tails outward as t and n ask for: next to nothing with many units, what is missing with few.
    """
    if not values:
        raise ValueError("a bootstrap needs at least one value")
    rows, turned = _turned(_sums_and_sizes(values, clusters))
    drawn = _draw(rows, resamples, np.random.default_rng(seed))
    means = np.sort(drawn[:, 0] / drawn[:, 1])
    mean = math.fsum(rows[:, 0]) / math.fsum(rows[:, 1])
    tails = expanded_tails(len(rows)) if expanded and len(rows) > 1 else ((1 - LEVEL) / 2, (1 + LEVEL) / 2)
    corrected = _bca_tails(means, mean, rows[:, 0] - mean * rows[:, 1], tails)
    return _estimate(mean, means, corrected, len(rows), turned)


def hierarchical_bootstrap(
    by_seed: Sequence[Sequence[float]], *, resamples: int = RESAMPLES, seed: int = 0
) -> Estimate:
    """95 % interval of the mean over seeds of the means over tasks; `n` counts seeds.

    Draws seeds, then tasks within each drawn seed. Percentiles over few seeds are too narrow, so the tails are moved
    outward as t and n ask for (Hesterberg 2015, "expanded percentile"). Where every seed has the same tasks, what is
    peculiar to a task does not average out over seeds: `clusters.two_way_interval` counts that.
    """
    if len(by_seed) < 2 or not all(by_seed):
        raise ValueError("a hierarchical bootstrap needs at least two seeds, each with a value")
    seeds, turned = _turned_seeds(by_seed)
    drawn = _draw_nested(seeds, resamples, np.random.default_rng(seed))
    mean = math.fsum(math.fsum(tasks) / len(tasks) for tasks in seeds) / len(seeds)
    return _estimate(mean, np.sort(drawn), expanded_tails(len(seeds)), len(seeds), turned)


def _sums_and_sizes(values: Sequence[float], clusters: Sequence[Hashable] | None) -> Array:
    if clusters is None:
        return np.array([(value, 1.0) for value in values])
    members: defaultdict[Hashable, list[float]] = defaultdict(list)
    for value, cluster in zip(values, clusters, strict=True):
        members[cluster].append(value)
    return np.array([(math.fsum(group), len(group)) for group in members.values()])


def _turned(rows: Array) -> tuple[Array, bool]:
    forth, back = (_sorted(rows * [sign, 1]) for sign in (1, -1))
    return (back, True) if back.tolist() > forth.tolist() else (forth, False)


def _turned_seeds(by_seed: Sequence[Sequence[float]]) -> tuple[list[Array], bool]:
    forth, back = (sorted(sorted(sign * value for value in tasks) for tasks in by_seed) for sign in (1, -1))
    turned = back > forth
    return [np.array(tasks, dtype=np.float64) for tasks in (back if turned else forth)], turned


def _sorted(rows: Array) -> Array:
    return rows[np.lexsort(rows.T[::-1])]


def _draw(rows: Array, resamples: int, rng: np.random.Generator) -> Array:
    """Sums over `len(rows)` rows drawn with replacement, for each resample."""
    distinct, counts = np.unique(rows, axis=0, return_counts=True)
    if len(distinct) * 10 < len(rows):
        # How often each distinct row is drawn says as much as which rows, and is far cheaper.
        return rng.multinomial(len(rows), counts / len(rows), size=resamples) @ distinct
    drawn = np.empty((resamples, rows.shape[1]))
    at_once = max(1, CHUNK // len(rows))
    for start in range(0, resamples, at_once):
        many = min(at_once, resamples - start)
        chosen = rng.integers(len(rows), size=(many, len(rows)))
        for column in range(rows.shape[1]):
            drawn[start : start + many, column] = rows[chosen, column].sum(axis=1)
    return drawn


def _draw_nested(seeds: Sequence[Array], resamples: int, rng: np.random.Generator) -> Array:
    chosen = rng.integers(len(seeds), size=(resamples, len(seeds)))
    means = np.empty(chosen.shape)
    for index, tasks in enumerate(seeds):
        places = chosen == index
        means[places] = _draw(tasks[:, None], int(places.sum()), rng)[:, 0] / len(tasks)
    return means.mean(axis=1)


def _bca_tails(means: Array, mean: float, influence: Array, tails: tuple[float, float]) -> tuple[float, float]:
    """Percentiles corrected for bias and skew (Efron 1987), with the jackknife's acceleration for a mean."""
    spread = float(np.sum(influence**2))
    tolerance = 1e-12 * max(1.0, abs(mean))
    below = float(np.mean(means < mean - tolerance) + np.mean(np.abs(means - mean) <= tolerance) / 2)
    if spread == 0 or not 0 < below < 1:
        return tails
    bias, skew = NORMAL.inv_cdf(below), float(np.sum(influence**3)) / (6 * spread**1.5)

    def corrected(share: float) -> float:
        z = bias + NORMAL.inv_cdf(share)
        return NORMAL.cdf(bias + z / (1 - skew * z))

    return corrected(tails[0]), corrected(tails[1])


def _estimate(mean: float, means: Array, tails: tuple[float, float], n: int, turned: bool) -> Estimate:
    lo, hi = (float(value) for value in np.quantile(means, tails))
    lo, hi = min(lo, mean), max(hi, mean)
    return Estimate(mean=-mean, lo=-hi, hi=-lo, n=n) if turned else Estimate(mean=mean, lo=lo, hi=hi, n=n)
