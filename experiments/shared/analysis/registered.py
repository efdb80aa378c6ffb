"""The comparisons that a plan names, with Holm over its tests. Pure functions over what `trained` read.

A difference is first arm − second arm, seed by seed. With `over` it is the slope of that difference, within a seed over
the plan's regimes, on a gap of the seed's starts. Arms with several rates are taken at their best: for a seed the one
with the highest mean speed over the other seeds, of equal ones the first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean, linear_regression, stdev
from typing import Any, Literal, NamedTuple

from composer_replication.evaluation.clusters import two_way_interval
from composer_replication.evaluation.power import minimum_detectable_effect
from composer_replication.evaluation.resampling import bootstrap, hierarchical_bootstrap
from composer_replication.evaluation.stats import Estimate
from composer_replication.evaluation.tests_of_difference import ALPHA, holm, sign_flip

from .trained import Cell, Point, Trained

Side = Mapping[int, Trained]
Told = Literal["higher", "lower", "no clear difference", "cannot be tested"]


class Difference(NamedTuple):
    sides: str
    number: str
    step: int | None
    """Of success; None where speed is compared."""
    by_seed: Mapping[int, float]
    interval: Estimate
    two_way: Estimate | None
    p: float
    smallest_p: float
    detectable: float
    """At 80 % power and 5 %, with the spread of these differences."""


class Tested(NamedTuple):
    name: str
    difference: Difference
    p_holm: float
    detectable_at_first_step: float
    told: Told


def verdicts(tests: Mapping[str, Mapping[str, Any]], cells: Mapping[str, Cell], rates: Sequence[str]) -> list[Tested]:
    return judged({name: difference(test, cells, rates) for name, test in tests.items()})


def judged(found: Mapping[str, Difference]) -> list[Tested]:
    adjusted = holm([one.p for one in found.values()])
    return [
        Tested(name, one, p_holm, _detectable(one.by_seed, ALPHA / len(found)), _told(one, p_holm))
        for (name, one), p_holm in zip(found.items(), adjusted, strict=True)
    ]


def difference(test: Mapping[str, Any], cells: Mapping[str, Cell], rates: Sequence[str]) -> Difference:
    first, second = test["sides"]
    if "over" in test:
        slopes = {seed: slope for seed, (slope, _) in lines_over(test, cells, rates).items()}
        return _made(f"{first} − {second}", f"slope of speed on the {test['over']}", slopes)
    cell, where = cells[test["regime"]], f"{first} − {second}, {test['regime']}"
    sides = (at_best_rate(cell, first, rates), at_best_rate(cell, second, rates))
    return in_success(where, *sides, test["success_at"]) if "success_at" in test else in_speed(where, *sides)


def in_speed(sides: str, first: Side, second: Side) -> Difference:
    return _made(sides, "speed", _differences(first, second))


def in_success(sides: str, first: Side, second: Side, step: int) -> Difference:
    """Tasks are drawn again too, as whole tables of them are there."""
    points = {seed: (first[seed].points[step], second[seed].points[step]) for seed in first}
    interval, two_way = intervals_of(list(points.values()))
    found = _made(sides, f"success at step {step}", {seed: a.success - b.success for seed, (a, b) in points.items()})
    return found._replace(step=step, interval=interval, two_way=two_way)


def intervals_of(points: Sequence[tuple[Point, Point]]) -> tuple[Estimate, Estimate]:
    """Of the differences of pairs, one per seed, on the same tasks: the hierarchical and the two-way interval."""
    tables = [[a - b for a, b in zip(first.shares, second.shares, strict=True)] for first, second in points]
    return hierarchical_bootstrap(tables), two_way_interval(tables).estimate


def lines_over(
    test: Mapping[str, Any], cells: Mapping[str, Cell], rates: Sequence[str]
) -> dict[int, tuple[float, float]]:
    """By seed: slope and intercept."""
    points = points_over(test, cells, rates)
    fits = {
        seed: linear_regression(*zip(*(found[seed] for found in points.values()), strict=True))
        for seed in next(iter(points.values()))
    }
    return {seed: (fit.slope, fit.intercept) for seed, fit in fits.items()}


def points_over(
    test: Mapping[str, Any], cells: Mapping[str, Cell], rates: Sequence[str]
) -> dict[str, dict[int, tuple[float, float]]]:
    """By regime and seed: gap of the start, and difference in speed."""
    return {
        regime: {
            seed: (cell.starts[seed].gap(test["over"]), gain)
            for seed, gain in _differences(*(at_best_rate(cell, side, rates) for side in test["sides"])).items()
        }
        for regime, cell in cells.items()
    }


def best_rates(cell: Cell, kind: str, rates: Sequence[str]) -> dict[int, str]:
    """By seed, chosen without it."""
    speeds = {rate: {seed: run.speed for seed, run in cell.arms[f"{kind}-{rate}"].items()} for rate in rates}

    def without(seed: int, rate: str) -> float:
        return fmean(speed for other, speed in speeds[rate].items() if other != seed)

    return {seed: max(rates, key=lambda rate: without(seed, rate)) for seed in cell.starts}


def at_best_rate(cell: Cell, kind: str, rates: Sequence[str]) -> Side:
    if not rates:
        return cell.arms[kind]
    return {seed: cell.arms[f"{kind}-{rate}"][seed] for seed, rate in best_rates(cell, kind, rates).items()}


def over_seeds(values: Sequence[float]) -> Estimate:
    return bootstrap(values, expanded=True)


def _differences(first: Side, second: Side) -> dict[int, float]:
    return {seed: first[seed].speed - second[seed].speed for seed in first}


def _made(sides: str, number: str, by_seed: Mapping[int, float]) -> Difference:
    values = list(by_seed.values())
    test = sign_flip(values)
    detectable = _detectable(by_seed, ALPHA)
    return Difference(sides, number, None, by_seed, over_seeds(values), None, test.p, test.floor, detectable)


def _detectable(by_seed: Mapping[int, float], alpha: float) -> float:
    values = list(by_seed.values())
    return minimum_detectable_effect(stdev(values), len(values), alpha)


def _told(found: Difference, p_holm: float) -> Told:
    if 2 ** (1 - len(found.by_seed)) > ALPHA:  # whatever the effect
        return "cannot be tested"
    if p_holm > ALPHA:
        return "no clear difference"
    return "higher" if found.interval.mean > 0 else "lower"
