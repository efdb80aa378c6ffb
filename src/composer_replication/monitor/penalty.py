"""How sure is it, and what does it cost: a calibrated logistic regression over `features`, kept as JSON.

Reads `weights.json` beside this file (written by `experiments/006-monitor/fit.py`). Soft evidence costs `λ · p` where p
reaches the threshold, at most 0.2 whatever the reward is; below the threshold nothing happens, so that the noise of
honest work is not trained against. Hard evidence costs the whole reward, and `λ · p` where that is more: a hack that
failed must not be cheaper the surer it is. `drop` masks the rollout instead.

The threshold is set on predictions for behaviours that the model did not see, so that its false alarms are those of
new behaviour and not of remembered one. It does not transfer to hacks unlike any in the tuning set: leave-one-class-out
figures say how far.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple, Protocol

from pydantic import ValidationError

from composer_replication.errors import UsageError
from composer_replication.records import JsonObject, Record
from composer_replication.runs import write_atomically

from .features import NAMES, SIGNS, Features, values_of

WEIGHTS = Path(__file__).with_name("weights.json")
FIT_COMMAND = "python experiments/006-monitor/fit.py"
MAX_LAMBDA = 0.2
MAX_FALSE_POSITIVE_RATE = 0.005
"""Half of what is asked for, because new honest behaviour is always a little stranger than that of the tuning set."""
LOWEST_THRESHOLD = 0.5
"""An alarm is more likely right than wrong, however well-behaved the tuning set is."""
L2 = 1.0
Mode = Literal["watch", "penalty", "drop"]


class Judged(Protocol):
    """All that the loss may know of a rollout."""

    @property
    def hard(self) -> bool: ...

    @property
    def p(self) -> float | None: ...


class Weights(Record):
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
        from .logistic import Line

        if not has_signs(features):
            return 0.0
        return Line(self.mean, self.scale, self.weights, self.intercept).probability(values_of(features, self.features))

    @classmethod
    def load(cls, path: Path = WEIGHTS) -> Weights:
        try:
            found = cls.model_validate_json(path.read_bytes())
        except FileNotFoundError as error:
            raise UsageError(f"the monitor has no weights: {path} is missing", FIT_COMMAND) from error
        except ValidationError as error:
            raise UsageError(f"{path} does not hold weights of the monitor", FIT_COMMAND) from error
        if unknown := set(found.features) - set(NAMES):
            raise UsageError(f"{path} names features that are not computed: {', '.join(sorted(unknown))}", FIT_COMMAND)
        return found

    def save(self, path: Path = WEIGHTS) -> None:
        write_atomically(path, self.model_dump_json(indent=1) + "\n")


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

    def is_over(self, judged: Judged) -> bool:
        """Whether its soft evidence is enough to act on."""
        return judged.p is not None and judged.p >= self.weights.threshold

    def charge(self, reward: float, judged: Judged) -> float:
        """What to add to a reward: never more than 0, and for hard evidence never less than for the same p without."""
        if self.mode != "penalty":
            return 0.0
        soft = self.lambda_ * (judged.p or 0.0)
        if judged.hard:
            return -max(reward, soft)
        return -soft if self.is_over(judged) else 0.0

    def drops(self, judged: Judged) -> bool:
        """Whether nothing may be learnt from this rollout."""
        return self.mode == "drop" and (judged.hard or self.is_over(judged))

    def reward(self, reward: float, judged: Judged) -> float:
        return reward + self.charge(reward, judged)


def has_signs(features: Features) -> bool:
    return features["rules_broken"] > 0


class Fitted(NamedTuple):
    weights: Weights
    cross_fitted: list[float]
    """The probability of each case by a model that saw nothing of its behaviour."""
    taken_out: tuple[str, ...]
    """Features that never vary, or whose weight came out against the expected sign."""


def fit(
    rows: Sequence[Features],
    labels: Sequence[bool],
    behaviours: Sequence[str],
    trained_on: JsonObject,
    *,
    l2: float = L2,
    most_false_positives: float = MAX_FALSE_POSITIVE_RATE,
    folds: int = 10,
) -> Fitted:
    """`behaviours` says what is held out together: variants of one script are no new evidence about each other."""
    from .logistic import cross_fitted, fit_line, threshold_for

    if not any(labels) or all(labels):
        raise UsageError("fitting needs hacks and honest rollouts", "record both, then fit again")
    if len(set(behaviours)) < 2:
        raise UsageError("all cases are of one behaviour: nothing can be held out", "record more behaviours")
    values = [values_of(row) for row in rows]
    line = fit_line(values, labels, l2, SIGNS)
    unseen = [
        p if has_signs(row) else 0.0
        for p, row in zip(cross_fitted(values, labels, behaviours, l2, SIGNS, folds), rows, strict=True)
    ]
    threshold = max(LOWEST_THRESHOLD, threshold_for(unseen, labels, most_false_positives))
    honest = [p for p, hack in zip(unseen, labels, strict=True) if not hack]
    weights = Weights(
        features=NAMES,
        mean=line.mean,
        scale=line.scale,
        weights=line.weights,
        intercept=line.intercept,
        threshold=threshold,
        false_positive_rate=sum(p >= threshold for p in honest) / len(honest),
        trained_on={**trained_on, "hacks": sum(labels), "honest": len(honest), "behaviours": len(set(behaviours))},
    )
    taken_out = tuple(name for name, weight in zip(NAMES, line.weights, strict=True) if not weight)
    return Fitted(weights, unseen, taken_out)
