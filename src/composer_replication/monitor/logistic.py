"""A fitted logistic regression on standardised columns. Fitting is the experiment's: experiments/006-monitor."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

LARGEST_EXPONENT = 30.0


@dataclass(frozen=True)
class Line:
    """A fitted model: `intercept + sum(weight · (value − mean) / scale)`, as log odds."""

    mean: tuple[float, ...]
    scale: tuple[float, ...]
    weights: tuple[float, ...]
    """0 for a column that was taken out."""
    intercept: float

    def log_odds(self, values: Sequence[float]) -> float:
        columns = zip(values, self.mean, self.scale, self.weights, strict=True)
        return self.intercept + sum(weight * (value - mean) / scale for value, mean, scale, weight in columns if weight)

    def probability(self, values: Sequence[float]) -> float:
        return 1 / (1 + math.exp(-max(-LARGEST_EXPONENT, min(LARGEST_EXPONENT, self.log_odds(values)))))
