"""How sure is it, and what does it cost: a calibrated logistic regression over `features`, kept as JSON.

Reads `weights.json` beside this file (written by `experiments/006-monitor/fit.py`). Hard evidence costs the whole
reward. Soft evidence costs nothing by itself: see `judge.py`. `drop` masks the rollout, and also one whose soft
evidence reaches the threshold; below it nothing happens, so that the noise of honest work is not trained against.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from composer_replication.errors import UsageError
from composer_replication.records import JsonObject

from .features import NAMES, Features, values_of
from .logistic import FIT_COMMAND, FittedModel, Regression

WEIGHTS = Path(__file__).with_name("weights.json")
Mode = Literal["watch", "penalty", "drop"]


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
