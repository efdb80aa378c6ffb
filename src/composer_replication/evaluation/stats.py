"""Estimates with 95 % intervals. Reads outcomes per task, writes `Estimate`; tasks are the unit that is resampled."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from statistics import NormalDist, fmean
from typing import Annotated, Literal

import numpy as np
from pydantic import PlainSerializer

from composer_replication.environments.protocol import FEWEST_TO_TELL
from composer_replication.records import JsonObject, Record

from .distributions import student_quantile

NoInterval = Literal["too few to tell", "all alike"]
TOO_FEW: NoInterval = "too few to tell"
ALIKE: NoInterval = "all alike"
"""Enough were measured, but nothing varied, so there is no interval."""
LEVEL = 0.95
Z = NormalDist().inv_cdf((1 + LEVEL) / 2)
MANY_TASKS = 50
"""From here on plain percentiles of a bootstrap cover what they say."""
SMALLEST_TAIL = 1e-9
"""Far beyond any number of resamples: with two or three units the interval is the whole range of the resamples."""


class Estimate(Record):
    """A mean over `n` tasks and its 95 % interval."""

    mean: float
    lo: float
    hi: float
    n: int

    @property
    def has_width(self) -> bool:
        """An interval of no width says that those measured were alike, not that all are."""
        return self.lo < self.hi

    @property
    def is_too_few(self) -> bool:
        return self.n < FEWEST_TO_TELL or not self.has_width

    def told(self, digits: str = "+.3f") -> str:
        interval = ", ".join(format(end, digits) for end in (self.lo, self.hi))
        return no_interval(self.n) if self.is_too_few else f"{format(self.mean, digits)} [{interval}]"


def no_interval(n: int) -> NoInterval:
    """Why an estimate over `n` has none: the one place that decides it, for tasks, sessions, arms and pages."""
    return TOO_FEW if n < FEWEST_TO_TELL else ALIKE


def said(estimate: Estimate) -> JsonObject:
    """As JSON tells an estimate over tasks, sessions or sites: `lo` and `hi` are null where it has no interval."""
    return _dumped(estimate, not estimate.is_too_few)


def said_of_few(estimate: Estimate) -> JsonObject:
    """The same where the interval is widened for few units: told from two units on, unless nothing varied."""
    return _dumped(estimate, estimate.has_width)


def _dumped(estimate: Estimate, has_interval: bool) -> JsonObject:
    return estimate.model_dump() | ({} if has_interval else {"lo": None, "hi": None})


Said = Annotated[Estimate, PlainSerializer(said)]
SaidOfFew = Annotated[Estimate, PlainSerializer(said_of_few)]


def mean_interval(values: Sequence[float]) -> Estimate:
    """Wilson interval for 0/1 outcomes, bootstrap interval for anything else."""
    _require(values)
    if all(value in (0, 1) for value in values):
        return _wilson(int(sum(values)), len(values))
    return _bootstrap(values, 0, 10_000, (1 - LEVEL) / 2)


def paired_difference(
    before: Sequence[float], after: Sequence[float], seed: int = 0, resamples: int = 10_000
) -> Estimate:
    """Mean of after − before on the same tasks, with a percentile bootstrap over tasks, expanded for few.

    Tasks that all change by the same amount give an interval of width 0, however few they are: quote `n` with it.
    """
    _require(before)
    differences = [y - x for x, y in zip(before, after, strict=True)]
    is_few = 1 < len(differences) < MANY_TASKS
    return _bootstrap(differences, seed, resamples, expanded_tails(len(differences))[0] if is_few else (1 - LEVEL) / 2)


def expanded_tails(n: int) -> tuple[float, float]:
    """Of a 95 % percentile interval over `n` units, moved outward as t and n ask for (Hesterberg 2015)."""
    tail = max(SMALLEST_TAIL, NormalDist().cdf(-math.sqrt(n / (n - 1)) * student_quantile((1 + LEVEL) / 2, n - 1)))
    return tail, 1 - tail


def kappa(agreed: Sequence[float], chance: Sequence[float]) -> Estimate:
    """Agreement beyond chance (Brennan and Prediger): (share − chance) / (1 − chance), with the interval of the share.

    One number from 0 to 1 per item; `chance` is that of picking one of the item's options blindly, below 1.
    """
    share, by_chance = mean_interval(agreed), fmean(chance)
    mean, lo, hi = ((value - by_chance) / (1 - by_chance) for value in (share.mean, share.lo, share.hi))
    return _estimate(mean, lo, hi, share.n)


def _wilson(successes: int, n: int) -> Estimate:
    mean = successes / n
    shrink = 1 + Z * Z / n
    centre = (mean + Z * Z / (2 * n)) / shrink
    half = Z * math.sqrt(mean * (1 - mean) / n + Z * Z / (4 * n * n)) / shrink
    return _estimate(mean, max(0.0, centre - half), min(1.0, centre + half), n)


def _bootstrap(values: Sequence[float], seed: int, resamples: int, tail: float) -> Estimate:
    # Drawing how often each distinct value occurs is the same as drawing tasks, and needs far less memory.
    # Values keep the order of their first task, so negated values give exactly the negated interval.
    weights = Counter(values)
    distinct = np.fromiter(weights, dtype=np.float64)
    shares = np.fromiter(weights.values(), dtype=np.float64) / len(values)
    drawn = np.random.default_rng(seed).multinomial(len(values), shares, size=resamples)
    means = np.sort(drawn @ distinct / len(values))
    outside = int(resamples * tail)
    return _estimate(fmean(values), float(means[outside]), float(means[resamples - 1 - outside]), len(values))


def _estimate(mean: float, lo: float, hi: float, n: int) -> Estimate:
    return Estimate(mean=mean, lo=min(lo, mean), hi=max(hi, mean), n=n)


def _require(values: Sequence[float]) -> None:
    if not values:
        raise ValueError("an estimate needs at least one task")
