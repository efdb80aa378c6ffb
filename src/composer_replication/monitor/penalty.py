"""How sure is it, and what does it cost: a calibrated logistic regression over `features`, kept as JSON.

Reads `weights.json` beside this file (written by `experiments/006-monitor/fit.py`). Hard evidence costs the whole
reward. Soft evidence costs nothing by itself: see `ruling.py`. `drop` masks the rollout, and also one whose soft
evidence reaches the threshold; below it nothing happens, so that the noise of honest work is not trained against.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, Self

from pydantic import ValidationError

from composer_replication.errors import UsageError
from composer_replication.records import JsonObject, Record
from composer_replication.runs import write_atomically

from .features import NAMES, Features, values_of

WEIGHTS = Path(__file__).with_name("weights.json")
Mode = Literal["watch", "penalty", "drop"]
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


class Chargeable(Protocol):
    """All that the loss may know of a rollout."""

    @property
    def hard(self) -> bool: ...

    @property
    def p(self) -> float | None: ...


class Weights(FittedModel):
    features: tuple[str, ...]
    mean: tuple[float, ...]
    scale: tuple[float, ...]
    weights: tuple[float, ...]
    intercept: float
    threshold: float
    false_positive_rate: float
    """Of the tuning set's honest rollouts, at the threshold, by cross-fitted predictions."""
    trained_on: JsonObject
    """Hash of the corpus and how many of what."""

    def probability(self, features: Features) -> float:
        """0 where no rule has anything to show: nobody is accused by counts alone."""
        if not has_signs(features):
            return 0.0
        return Regression(self.mean, self.scale, self.weights, self.intercept).probability(
            values_of(features, self.features)
        )

    @classmethod
    def load(cls, path: Path = WEIGHTS) -> Weights:
        found = super().load(path)
        if unknown := set(found.features) - set(NAMES):
            raise UsageError(f"{path} names features that are not computed: {', '.join(sorted(unknown))}", FIT_COMMAND)
        return found


@dataclass(frozen=True)
class Penalty:
    """Inside training, for signs that only an environment's own rules know and for rollouts to be left out."""

    weights: Weights
    mode: Mode = "penalty"

    @classmethod
    def load(cls, mode: Mode = "penalty", path: Path = WEIGHTS) -> Penalty:
        return cls(Weights.load(path), mode)

    def charge(self, reward: float, judged: Chargeable) -> float:
        """What to add to a reward: hard evidence takes what there is of it, soft evidence nothing."""
        return -max(reward, 0.0) if self.mode == "penalty" and judged.hard else 0.0

    def drops(self, judged: Chargeable) -> bool:
        """Whether nothing may be learnt from this rollout."""
        is_over = judged.p is not None and judged.p >= self.weights.threshold
        return self.mode == "drop" and (judged.hard or is_over)


def has_signs(features: Features) -> bool:
    return features["rules_broken"] > 0
