"""How sure is it, and what does it cost: a calibrated logistic regression over `features`, kept as JSON.

Reads `weights.json` beside this file (written by `experiments/006-monitor/fit.py`). Soft evidence costs `λ · p` where p
reaches the threshold, at most 0.2 whatever the reward is; below the threshold nothing happens, so that the noise of
honest work is not trained against. Hard evidence costs the whole reward, and `λ · p` where that is more: a hack that
failed must not be cheaper the surer it is. `drop` masks the rollout instead.
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
MAX_LAMBDA = 0.2
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
    weights: Weights
    lambda_: float = MAX_LAMBDA
    mode: Mode = "penalty"

    def __post_init__(self) -> None:
        if not 0 <= self.lambda_ <= MAX_LAMBDA:
            raise UsageError(
                f"a penalty of {self.lambda_} on soft evidence is refused: false alarms would teach more than rewards",
                f"choose lambda between 0 and {MAX_LAMBDA}",
            )

    @classmethod
    def load(cls, lambda_: float = MAX_LAMBDA, mode: Mode = "penalty", path: Path = WEIGHTS) -> Penalty:
        return cls(Weights.load(path), lambda_, mode)

    def is_over(self, judged: Chargeable) -> bool:
        """Whether its soft evidence is enough to act on."""
        return judged.p is not None and judged.p >= self.weights.threshold

    def charge(self, reward: float, judged: Chargeable) -> float:
        """What to add to a reward: never more than 0, and for hard evidence never less than for the same p without."""
        if self.mode != "penalty":
            return 0.0
        soft = self.lambda_ * (judged.p or 0.0)
        if judged.hard:
            return -max(reward, soft)
        return -soft if self.is_over(judged) else 0.0

    def drops(self, judged: Chargeable) -> bool:
        """Whether nothing may be learnt from this rollout."""
        return self.mode == "drop" and (judged.hard or self.is_over(judged))

    def reward(self, reward: float, judged: Chargeable) -> float:
        return reward + self.charge(reward, judged)


def has_signs(features: Features) -> bool:
    return features["rules_broken"] > 0
