"""Numbers that sum up tries at one task, or a curve over training steps. Pure functions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise


def pass_at_k(successes: int, tries: int, k: int) -> float:
    """The chance that at least one of `k` tries succeeds, without bias (Chen et al. 2021): 1 − C(n−c, k) / C(n, k)."""
    if not 0 <= successes <= tries:
        raise ValueError(f"{successes} successes of {tries} tries")
    if not 1 <= k <= tries:
        raise ValueError(f"pass@{k} needs at least {k} tries of a task, there are {tries}")
    return 1 - math.comb(tries - successes, k) / math.comb(tries, k)


def area_under(steps: Sequence[float], values: Sequence[float]) -> float:
    """Mean height of the curve through the points, in the unit of `values`: trapezoids over the range of the steps."""
    points = sorted(zip(steps, values, strict=True))
    if len(points) < 2 or any(later[0] == earlier[0] for earlier, later in pairwise(points)):
        raise ValueError("an area needs at least two steps, each with one value")
    area = math.fsum((b[0] - a[0]) * (a[1] + b[1]) / 2 for a, b in pairwise(points))
    return area / (points[-1][0] - points[0][0])
