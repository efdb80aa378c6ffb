"""Weights of the penalty and of the auditor from labelled rollouts: regressions, and thresholds for an alarm.

Reads features or acts, labels and behaviours; gives what `monitor/weights.json` and `monitor/auditor.json` hold. The
threshold is set on predictions for behaviours that the model did not see, so that its false alarms are those of new
behaviour and not of remembered one. It does not transfer to hacks unlike any in the tuning set: leave-one-class-out
figures say how far.
"""

from collections.abc import Sequence
from typing import NamedTuple

from regression import cross_fitted, fit_line, threshold_for

from composer_replication.errors import UsageError
from composer_replication.monitor.auditor import BUCKETS, Auditor, hashed
from composer_replication.monitor.conduct import Act
from composer_replication.monitor.features import NAMES, Features, values_of
from composer_replication.monitor.penalty import Weights, has_signs
from composer_replication.records import JsonObject

MAX_FALSE_POSITIVE_RATE = 0.005
"""Half of what is asked for, because new honest behaviour is always a little stranger than that of the tuning set."""
LOWEST_THRESHOLD = 0.5
"""An alarm is more likely right than wrong, however well-behaved the tuning set is."""
PENALTY_L2, AUDITOR_L2 = 1.0, 10.0
SIGNS = (1,) * len(NAMES)
"""More of any feature may only raise the probability."""


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
    l2: float = PENALTY_L2,
    most_false_positives: float = MAX_FALSE_POSITIVE_RATE,
    folds: int = 10,
) -> Fitted:
    """`behaviours` says what is held out together: variants of one script are no new evidence about each other."""
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


def fit_auditor(
    rollouts: Sequence[Sequence[Act]],
    labels: Sequence[bool],
    behaviours: Sequence[str],
    trained_on: JsonObject,
    *,
    l2: float = AUDITOR_L2,
    most_false_positives: float = 0.01,
    folds: int = 5,
) -> tuple[Auditor, list[float]]:
    """The auditor, and its probability for each rollout when it had seen nothing of that behaviour."""
    found = [hashed(acts) for acts in rollouts]
    values = [[row.get(bucket, 0.0) for bucket in range(BUCKETS)] for row in found]
    line = fit_line(values, labels, l2)
    unseen = cross_fitted(values, labels, behaviours, l2, folds=folds)
    threshold = threshold_for(unseen, labels, most_false_positives)
    honest = [p for p, hack in zip(unseen, labels, strict=True) if not hack]
    slopes = [weight / scale for weight, scale in zip(line.weights, line.scale, strict=True)]
    auditor = Auditor(
        weights={bucket: round(slope, 6) for bucket, slope in enumerate(slopes) if abs(slope) > 1e-6},
        intercept=line.intercept - sum(slope * mean for slope, mean in zip(slopes, line.mean, strict=True)),
        threshold=threshold,
        false_positive_rate=sum(p >= threshold for p in honest) / len(honest),
        trained_on={**trained_on, "hacks": sum(labels), "honest": len(honest), "behaviours": len(set(behaviours))},
    )
    return auditor, unseen
