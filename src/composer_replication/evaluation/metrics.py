"""What is compared: one number per task from the episodes of one run.

A metric is a field of the outcomes (`success`, `reward`, `turns`, …; a list counts its items), `pass@K` over the tries
at each task, `area` under the success curve over steps, or `area:FIELD`. Where rows have steps, the last one counts.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from composer_replication.errors import UsageError

WHOLE_RUN = ""
Row = Mapping[str, Any]


def mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


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


def task_of(row: Row) -> str:
    return str(row.get("task_id", WHOLE_RUN))


def values_by_task(rows: Sequence[Row], metric: str, path: Path) -> dict[str, float]:
    """One value per task of one seed: of the last step, or of the whole curve where the metric is an area."""
    if metric.partition(":")[0] == "area":
        return _areas(rows, metric.partition(":")[2] or "success", path)
    if all("step" in row for row in rows):
        last = max(row["step"] for row in rows)
        rows = [row for row in rows if row["step"] == last]
    tries: defaultdict[str, list[float]] = defaultdict(list)
    joined, field = _joined(metric, path)
    for row in rows:
        tries[task_of(row)].append(_number(row, field, path))
    return {task: joined(values) for task, values in tries.items()}


def _areas(rows: Sequence[Row], metric: str, path: Path) -> dict[str, float]:
    by_step: defaultdict[float, list[Row]] = defaultdict(list)
    for row in rows:
        if "step" not in row:
            raise UsageError(f"{path}: an area needs a step in every line", "choose another --metric")
        by_step[row["step"]].append(row)
    curves: defaultdict[str, dict[float, float]] = defaultdict(dict)
    for step, found in by_step.items():
        for task, value in values_by_task(found, metric, path).items():
            curves[task][step] = value
    if any(len(curve) < max(2, len(by_step)) for curve in curves.values()):
        raise UsageError(
            f"{path}: an area needs every task at every one of at least two steps", "choose another --metric"
        )
    return {task: area_under(list(curve), list(curve.values())) for task, curve in curves.items()}


def _joined(metric: str, path: Path) -> tuple[Callable[[Sequence[float]], float], str]:
    """How the tries at one task become one number, and the field they are read from."""
    asked = re.fullmatch(r"pass@(\d+)", metric)
    if not asked:
        return mean, metric
    k = int(asked[1])
    if k < 1:
        raise UsageError(f"{metric} is no metric: k is at least 1", "--metric pass@1")

    def joined(tries: Sequence[float]) -> float:
        if parts := [value for value in tries if value not in (0, 1)]:
            reason = f"{path}: {metric} counts successes, and a try has {parts[0]:g}"
            raise UsageError(reason, "write success as 0 or 1, or choose another --metric")
        try:
            return pass_at_k(int(sum(tries)), len(tries), k)
        except ValueError as error:
            raise UsageError(f"{path}: {error}", "ask for a smaller k, or sample more tries") from error

    return joined, "success"


def _number(row: Row, field: str, path: Path) -> float:
    """`success` is its own field where there is one, else whether the reward is at least 1. A list counts its items."""
    value = row.get(field)
    if value is None and field == "success":
        reward = row.get("reward")
        value = reward >= 1 if isinstance(reward, int | float) else None
    if isinstance(value, list | tuple):
        value = len(value)
    if not isinstance(value, int | float):
        there = {key for key, other in row.items() if isinstance(other, int | float)}
        near = ", ".join(sorted(there | ({"success"} if "reward" in there else set())))
        reason = f"{path}: task {task_of(row) or 'of a whole run'} has no number {field} (there: {near})"
        raise UsageError(reason, "choose another --metric")
    return float(value)
