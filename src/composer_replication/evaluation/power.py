"""The smallest true effect that a comparison of this size would find in 80 % of repetitions. Pure functions.

Whoever finds nothing should quote it: smaller effects were mostly out of reach. The spread is taken as known; one that
was measured on few seeds is itself uncertain, and the result with it.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .distributions import solve_increasing, student_power
from .tests_of_difference import ALPHA

POWER = 0.8
SPREADS = 6
"""Standard deviations of a binomial number beyond which it is not looked at."""


def minimum_detectable_effect(sd: float, n: int, alpha: float = ALPHA, power: float = POWER) -> float:
    """For a paired comparison of `n` seeds or tasks whose differences spread by `sd`: the two-sided t-test's."""
    if n < 2 or sd < 0:
        raise ValueError("a detectable effect needs at least two differences and their standard deviation")
    return detectable_effect(sd / math.sqrt(n), n - 1, alpha, power)


def detectable_effect(standard_error: float, degrees: float, alpha: float = ALPHA, power: float = POWER) -> float:
    return standard_error * solve_increasing(lambda shift: student_power(shift, degrees, alpha), power)


def minimum_detectable_share(discordance: float, n: int, alpha: float = ALPHA, power: float = POWER) -> float:
    """For McNemar's exact test on `n` tasks of which the share `discordance` is solved by one arm only.

    Infinite where even a difference as large as the discordance would be missed.
    """
    if not 0 <= discordance <= 1 or n < 1:
        raise ValueError("the discordance is a share of at least one task")
    regions = _rejection_regions(discordance, n, alpha)
    if _mcnemar_power(1.0, regions) < power:
        return math.inf
    lead = solve_increasing(lambda lead: _mcnemar_power(min(lead, 1.0), regions), power)
    return min(lead, 1.0) * discordance


def mcnemar_power(difference: float, discordance: float, n: int, alpha: float = ALPHA) -> float:
    """How often the exact test rejects; the number of discordant tasks is itself random."""
    if discordance == 0:
        return 0.0
    return _mcnemar_power(difference / discordance, _rejection_regions(discordance, n, alpha))


class _Region(NamedTuple):
    """With `discordant` tasks the test rejects where one arm alone solves at most `most_lost` of them."""

    chance: float
    discordant: int
    most_lost: int


def _rejection_regions(discordance: float, n: int, alpha: float) -> list[_Region]:
    centre, spread = n * discordance, math.sqrt(n * discordance * (1 - discordance)) * SPREADS
    chances = _binomial(n, discordance, n)
    regions: list[_Region] = []
    for discordant in range(max(1, math.floor(centre - spread)), min(n, math.ceil(centre + spread)) + 1):
        tails = 2 * np.cumsum(_binomial(discordant, 0.5, discordant))
        most_lost = int(np.searchsorted(tails, alpha * (1 + 1e-12), side="right")) - 1
        if most_lost >= 0:
            regions.append(_Region(float(chances[discordant]), discordant, most_lost))
    return regions


def _mcnemar_power(lead: float, regions: list[_Region]) -> float:
    """`lead` is the difference as a share of the discordant tasks."""
    gain = (1 + lead) / 2
    return math.fsum(
        region.chance * float(_binomial(region.discordant, side, region.most_lost).sum())
        for region in regions
        for side in (gain, 1 - gain)
    )


def _binomial(n: int, share: float, most: int) -> NDArray[np.float64]:
    """Chances of 0 … `most` successes of `n`."""
    if share in (0, 1):
        return (np.arange(most + 1) == (n if share else 0)).astype(np.float64)
    logs, successes = _log_factorials(2 ** n.bit_length()), np.arange(most + 1)
    chosen = logs[n] - logs[: most + 1] - logs[n - most : n + 1][::-1]
    return np.exp(chosen + successes * math.log(share) + (n - successes) * math.log1p(-share))


@lru_cache(maxsize=1)
def _log_factorials(n: int) -> NDArray[np.float64]:
    return np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, n + 1)))])
