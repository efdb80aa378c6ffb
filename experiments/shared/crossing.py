"""Where a measured curve first reaches a level, and how many units have not by then. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise


def first_crossing(curve: Sequence[tuple[float, float]], level: float) -> float | None:
    """The first place on the straight lines between the points of at least this height; None where there is none."""
    for (place, height), (later, reached) in pairwise(curve):
        if height >= level:
            return place
        if reached >= level:
            return place + (level - height) / (reached - height) * (later - place)
    return None


def not_there_yet(crossings: Sequence[float | None], horizon: float) -> list[tuple[float, float]]:
    """Kaplan-Meier: corners of the curve of the share without a crossing, from 0 to the horizon.

    None is censored at the horizon. As nothing is censored before it, the share is a plain count.
    """
    corners, left = [(0.0, 1.0)], 1.0
    for place in sorted(place for place in crossings if place is not None):
        corners.append((place, left))
        left -= 1 / len(crossings)
        corners.append((place, left))
    return [*corners, (horizon, left)]
