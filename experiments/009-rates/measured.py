"""The plan's measures of a run that the shared analysis has not: rollouts to a level, and tokens. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from composer_replication.evaluation.stats import Estimate
from shared.analysis.registered import Side, over_seeds
from shared.analysis.trained import Trained
from shared.crossing import first_crossing

HORIZON = 40
"""Steps that every arm but `dynamic` has; `horizon` of plan.toml."""
ROLLOUTS_PER_STEP = 128
RATES = ("5e-6", "1e-5", "2e-5", "4e-5")


class TimeToLevel(NamedTuple):
    """Rollouts until a level is reached. Seeds that do not reach it count with the horizon; none is dropped."""

    level: float
    restricted_mean: Estimate
    by_seed: Mapping[int, float]
    censored: int


def rollouts_to(run: Trained, level: float) -> float | None:
    """None: not within the horizon, even if it gets there later."""
    step = first_crossing(run.curve, level)
    return None if step is None else step * ROLLOUTS_PER_STEP


def time_to_level(side: Side, level: float) -> TimeToLevel:
    found = {seed: rollouts_to(run, level) for seed, run in side.items()}
    most = float(HORIZON * ROLLOUTS_PER_STEP)
    times = {seed: most if rollouts is None else rollouts for seed, rollouts in found.items()}
    censored = sum(rollouts is None for rollouts in found.values())
    return TimeToLevel(level, over_seeds(list(times.values())), times, censored)


def tokens_until(run: Trained, step: float) -> float:
    """Of prompts and answers of all rollouts."""
    logged = [line["num_tokens"] for line in run.steps if "num_tokens" in line and line["step"] <= step]
    return max(logged, default=0.0)
