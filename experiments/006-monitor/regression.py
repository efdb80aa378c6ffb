"""Logistic regression small enough to read: Newton's method with an L2 penalty, and weights that keep to their sign.

Reads rows of numbers and labels; gives weights on standardised columns. A column whose weight comes out against its
expected sign is taken out and the rest is fitted again, so that more evidence can never make a hack less likely.
The intercept is not penalised. Does not choose the strength of the penalty.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from composer_replication.monitor.logistic import LARGEST_EXPONENT, Regression

MAX_NEWTON_STEPS = 100
TOLERANCE = 1e-8


def fit_line(rows: Any, labels: Any, l2: float, signs: Sequence[int] | None = None) -> Regression:
    """`rows` is (cases, columns), `labels` 0 or 1; `signs` is +1, −1 or 0 (either) for each column."""
    values, wanted = np.asarray(rows, dtype=float), np.asarray(labels, dtype=float)
    mean, spread = values.mean(0), values.std(0)
    scale = np.where(spread > 0, spread, 1.0)
    columns = (values - mean) / scale
    expected = np.zeros(values.shape[1]) if signs is None else np.asarray(signs, dtype=float)
    kept = spread > 0
    while True:
        weights, intercept = _newton(columns[:, kept], wanted, l2)
        against = weights * expected[kept]
        if not len(against) or against.min() >= 0:
            break
        kept[np.flatnonzero(kept)[int(against.argmin())]] = False
    full = np.zeros(values.shape[1])
    full[kept] = weights
    return Regression(tuple(mean.tolist()), tuple(scale.tolist()), tuple(full.tolist()), float(intercept))


def _newton(columns: Any, wanted: Any, l2: float) -> tuple[Any, float]:
    design = np.column_stack([np.ones(len(columns)), columns])
    ridge = np.full(design.shape[1], l2)
    ridge[0] = 0.0
    solution = np.zeros(design.shape[1])
    loss = _loss(design, wanted, solution, ridge)
    for _ in range(MAX_NEWTON_STEPS):
        chance = _sigmoid(design @ solution)
        slope = design.T @ (chance - wanted) + ridge * solution
        # A touch on the diagonal keeps the intercept's row solvable where every chance is near 0 or 1.
        curvature = (design.T * (chance * (1 - chance))) @ design + np.diag(ridge + 1e-9)
        step = np.linalg.solve(curvature, slope)
        share = 1.0
        while share > 1e-6 and _loss(design, wanted, solution - share * step, ridge) > loss:
            share /= 2
        solution = solution - share * step
        before, loss = loss, _loss(design, wanted, solution, ridge)
        if before - loss <= TOLERANCE * max(1.0, abs(loss)):
            break
    return solution[1:], float(solution[0])


def _loss(design: Any, wanted: Any, solution: Any, ridge: Any) -> float:
    odds = design @ solution
    return float(np.logaddexp(0, odds).sum() - wanted @ odds + 0.5 * (ridge * solution**2).sum())


def _sigmoid(odds: Any) -> Any:
    return 1 / (1 + np.exp(-np.clip(odds, -LARGEST_EXPONENT, LARGEST_EXPONENT)))


def fold_of_group(groups: Sequence[str], folds: int) -> list[int]:
    """Which fold each case is left out in: whole groups together, the biggest first into the smallest fold."""
    sizes: dict[str, int] = {}
    for group in groups:
        sizes[group] = sizes.get(group, 0) + 1
    filled, fold = [0] * folds, dict[str, int]()
    for group in sorted(sizes, key=lambda group: (-sizes[group], group)):
        fold[group] = filled.index(min(filled))
        filled[fold[group]] += sizes[group]
    return [fold[group] for group in groups]


def cross_fitted(
    rows: Any, labels: Any, groups: Sequence[str], l2: float, signs: Sequence[int] | None = None, folds: int = 10
) -> list[float]:
    """The probability of each case from a model that saw nothing of its group."""
    values, wanted = np.asarray(rows, dtype=float), np.asarray(labels, dtype=float)
    places = np.asarray(fold_of_group(groups, max(2, min(folds, len(set(groups))))))
    found = np.zeros(len(values))
    for place in np.unique(places):
        left_out = places == place
        line = fit_line(values[~left_out], wanted[~left_out], l2, signs)
        found[left_out] = [line.probability(row) for row in values[left_out].tolist()]
    return found.tolist()


def threshold_for(probabilities: Sequence[float], labels: Sequence[bool], most_false_positives: float) -> float:
    """The lowest threshold that at most this share of the honest cases reaches; an alarm is at or above it."""
    honest = sorted((p for p, hack in zip(probabilities, labels, strict=True) if not hack), reverse=True)
    if not honest:
        raise ValueError("no honest case: nothing to hold false alarms against")
    allowed = int(most_false_positives * len(honest))
    return math.nextafter(honest[allowed], math.inf) if allowed < len(honest) else 0.0
