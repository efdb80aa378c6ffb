"""The six registered comparisons, with Holm over the six. Pure functions.

At the best rate each seed's rate was chosen from the other seeds, so that the eight differences share a little of their
choice; the intervals and the test take them as independent, as the plan registered.
"""

from __future__ import annotations

from collections.abc import Mapping
from statistics import stdev
from typing import Literal, NamedTuple

from measured import Side, at_best_rate, over_seeds, speed
from trained import Results

from composer_replication.evaluation.clusters import two_way_interval
from composer_replication.evaluation.power import minimum_detectable_effect
from composer_replication.evaluation.resampling import hierarchical_bootstrap
from composer_replication.evaluation.stats import Estimate
from composer_replication.evaluation.tests_of_difference import ALPHA, holm, sign_flip

Told = Literal["higher", "lower", "no clear difference"]


class Difference(NamedTuple):
    """First side − second side, seed by seed. `step` is None where speed is compared."""

    sides: str
    step: int | None
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


def registered(results: Results) -> list[Tested]:
    arms = results.arms
    best = {kind: at_best_rate(results, kind) for kind in ("sdpo", "grpo")}
    found = {
        "H1": in_speed("sdpo − grpo, best rates", best["sdpo"], best["grpo"]),
        "H2": in_success("sdpo − grpo, best rates", best["sdpo"], best["grpo"], 40),
        "H3": in_speed("sdpo − sham at 2e-5", arms["sdpo-2e-5"], arms["sham-2e-5"]),
        "H4": in_success("sdpo − grpo at 5e-6", arms["sdpo-5e-6"], arms["grpo-5e-6"], 20),
        "H5": in_success("grpo at 2e-5 − sdpo at 5e-6", arms["grpo-2e-5"], arms["sdpo-5e-6"], 20),
        "H6": in_success("sdpo − grpo at 2e-5", arms["sdpo-2e-5"], arms["grpo-2e-5"], 10),
    }
    adjusted = holm([difference.p for difference in found.values()])
    return [
        Tested(name, difference, p_holm, _detectable(difference.by_seed, ALPHA / len(found)), _told(difference, p_holm))
        for (name, difference), p_holm in zip(found.items(), adjusted, strict=True)
    ]


def in_speed(sides: str, first: Side, second: Side) -> Difference:
    return _difference(sides, {seed: speed(first[seed]) - speed(second[seed]) for seed in first})


def in_success(sides: str, first: Side, second: Side, step: int) -> Difference:
    """Tasks are drawn again too, as whole tables of them are there."""
    tables = [
        [a - b for a, b in zip(first[seed].points[step].shares, second[seed].points[step].shares, strict=True)]
        for seed in first
    ]
    by_seed = {seed: first[seed].points[step].success - second[seed].points[step].success for seed in first}
    interval, two_way = hierarchical_bootstrap(tables), two_way_interval(tables).estimate
    return _difference(sides, by_seed)._replace(step=step, interval=interval, two_way=two_way)


def _difference(sides: str, by_seed: Mapping[int, float]) -> Difference:
    values = list(by_seed.values())
    test = sign_flip(values)
    return Difference(sides, None, by_seed, over_seeds(values), None, test.p, test.floor, _detectable(by_seed, ALPHA))


def _detectable(by_seed: Mapping[int, float], alpha: float) -> float:
    values = list(by_seed.values())
    return minimum_detectable_effect(stdev(values), len(values), alpha)


def _told(difference: Difference, p_holm: float) -> Told:
    if p_holm > ALPHA:
        return "no clear difference"
    return "higher" if difference.interval.mean > 0 else "lower"
