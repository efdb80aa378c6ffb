"""The plan's measures of a run, and the best rate of an arm. Pure functions over what `trained` read.

A `Side` is what takes part in a comparison: one run per seed, of one arm or, at the best rate, of several.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import NamedTuple

from trained import Results, Trained

from composer_replication.evaluation.metrics import area_under
from composer_replication.evaluation.resampling import bootstrap, hierarchical_bootstrap
from composer_replication.evaluation.stats import Estimate
from shared.crossing import first_crossing

HORIZON = 40
"""Steps that every arm but `dynamic` has."""
ROLLOUTS_PER_STEP = 128
RATES = ("5e-6", "1e-5", "2e-5", "4e-5")
Side = Mapping[int, Trained]


class TimeToLevel(NamedTuple):
    """Rollouts until a level is reached. Seeds that do not reach it count with the horizon; none is dropped."""

    level: float
    restricted_mean: Estimate
    by_seed: Mapping[int, float]
    censored: int


def speed(run: Trained) -> float:
    """Mean height of the success curve from the start to the horizon."""
    curve = _until_horizon(run)
    return area_under([step for step, _ in curve], [success for _, success in curve])


def rollouts_to(run: Trained, level: float) -> float | None:
    """None: not within the horizon, even if it gets there later."""
    step = first_crossing(_until_horizon(run), level)
    return None if step is None else step * ROLLOUTS_PER_STEP


def time_to_level(side: Side, level: float) -> TimeToLevel:
    found = {seed: rollouts_to(run, level) for seed, run in side.items()}
    most = float(HORIZON * ROLLOUTS_PER_STEP)
    times = {seed: most if rollouts is None else rollouts for seed, rollouts in found.items()}
    censored = sum(rollouts is None for rollouts in found.values())
    return TimeToLevel(level, over_seeds(list(times.values())), times, censored)


def best_rates(results: Results, kind: str) -> dict[int, str]:
    """For each seed the rate with the highest mean speed over the other seeds; of equal ones the lowest."""
    speeds = {rate: {seed: speed(run) for seed, run in results.arms[f"{kind}-{rate}"].items()} for rate in RATES}

    def without(seed: int, rate: str) -> float:
        return fmean(value for other, value in speeds[rate].items() if other != seed)

    return {seed: max(RATES, key=lambda rate: without(seed, rate)) for seed in results.seeds}


def at_best_rate(results: Results, kind: str) -> Side:
    return {seed: results.arms[f"{kind}-{rate}"][seed] for seed, rate in best_rates(results, kind).items()}


def success_at(side: Side, step: int) -> Estimate:
    return hierarchical_bootstrap([run.points[step].shares for run in side.values()])


def over_seeds(values: Sequence[float]) -> Estimate:
    return bootstrap(values, expanded=True)


def _until_horizon(run: Trained) -> list[tuple[float, float]]:
    if HORIZON not in run.points:
        raise ValueError(f"{run.arm} was not measured at step {HORIZON}")
    return [(step, point.success) for step, point in run.points.items() if step <= HORIZON]
