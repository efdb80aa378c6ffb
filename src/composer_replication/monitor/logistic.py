"""A fitted logistic regression on standardised columns, and how fitted models are kept as JSON.

Fitting is the experiment's: experiments/006-monitor.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from pydantic import ValidationError

from composer_replication.errors import UsageError
from composer_replication.records import Record
from composer_replication.runs import write_atomically

FIT_COMMAND = "python experiments/006-monitor/fit.py"
LARGEST_EXPONENT = 30.0


class FittedModel(Record):
    """Kept as JSON."""

    @classmethod
    def load(cls, path: Path) -> Self:
        try:
            return cls.model_validate_json(path.read_bytes())
        except FileNotFoundError as error:
            raise UsageError(f"the monitor has no weights: {path} is missing", FIT_COMMAND) from error
        except ValidationError as error:
            raise UsageError(f"{path} does not hold weights of the monitor", FIT_COMMAND) from error

    def save(self, path: Path) -> None:
        write_atomically(path, self.model_dump_json(indent=1) + "\n")


def chance(log_odds: float) -> float:
    return 1 / (1 + math.exp(-max(-LARGEST_EXPONENT, min(LARGEST_EXPONENT, log_odds))))


@dataclass(frozen=True)
class Regression:
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
        return chance(self.log_odds(values))
