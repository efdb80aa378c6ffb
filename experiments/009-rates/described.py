"""What the plan shows besides its tests, with intervals: levels of all arms, times to a level, reminders.

Gives plain dictionaries for tables.json; an `Estimate` stays one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from statistics import fmean
from typing import Any

import numpy as np
from measured import HORIZON, RATES, TimeToLevel, time_to_level, tokens_until

from composer_replication.evaluation.resampling import RESAMPLES, expanded_tails, hierarchical_bootstrap
from composer_replication.evaluation.stats import Estimate
from shared.analysis.described import curve_of
from shared.analysis.registered import (
    Difference,
    Side,
    at_best_rate,
    best_rates,
    in_success,
    intervals_of,
    over_seeds,
)
from shared.analysis.trained import Cell, Point, Trained

SHOWN_STEPS = (10, 20, 40)
LEVELS = (0.5, 0.7, 0.8)
NUMBERS_AT_END = ("pass@8", "errors_per_turn", "entropy", "kl_to_start", "seconds")
MEANS_OVER_STEPS = ("grad_norm", "gradient/policy", "gradient/sdpo", "gradient/sdpo_factor")
BEST = " at its best rate"


def sides(cell: Cell) -> dict[str, Side]:
    """Every arm, and the two that have a best rate."""
    return {**cell.arms, **{f"{kind}{BEST}": at_best_rate(cell, kind, RATES) for kind in ("grpo", "sdpo")}}


def level_of(side: Side) -> dict[str, Any]:
    runs = list(side.values())
    shown = [step for step in SHOWN_STEPS if all(step in run.points for run in runs)]
    numbers = [_numbers(run) for run in runs]
    names = [name for name in numbers[0] if all(name in one for one in numbers)]
    return {
        "seeds": len(runs),
        "success": {step: hierarchical_bootstrap([run.points[step].shares for run in runs]) for step in shown},
        "success_at_end": hierarchical_bootstrap([run.points[run.last_step].shares for run in runs]),
        "speed": over_seeds([run.speed for run in runs]) if HORIZON in shown else None,
        **{name: over_seeds([one[name] for one in numbers]) for name in names},
        "alarms": Counter(alarm for run in runs for alarm in run.alarms),
        "stopped": {seed: run.stopped for seed, run in side.items() if run.stopped},
    }


def _numbers(run: Trained) -> dict[str, float]:
    logged = {name: [line[name] for line in run.steps if name in line] for name in MEANS_OVER_STEPS}
    means = {name: fmean(values) for name, values in logged.items() if values}
    return {name: run.numbers[name] for name in NUMBERS_AT_END} | means


def times(cell: Cell) -> dict[str, list[TimeToLevel]]:
    """Rollouts to each level, of every side that has the horizon."""
    return {
        name: [time_to_level(side, level) for level in LEVELS]
        for name, side in sides(cell).items()
        if all(HORIZON in run.points for run in side.values())
    }


def saved_rollouts(cell: Cell) -> dict[float, Estimate]:
    """grpo − sdpo, each at its best rate, in restricted rollouts to a level."""
    grpo, sdpo = (at_best_rate(cell, kind, RATES) for kind in ("grpo", "sdpo"))
    pairs = {level: (time_to_level(grpo, level).by_seed, time_to_level(sdpo, level).by_seed) for level in LEVELS}
    return {level: over_seeds([slow[seed] - quick[seed] for seed in slow]) for level, (slow, quick) in pairs.items()}


def sham_share(cell: Cell) -> dict[str, Any]:
    """Of H4's difference, the share that sham hints recover: a ratio of means over seeds, both drawn again together.

    No interval where the draws of H4's difference come near 0: the ratio has none there.
    """
    grpo, sdpo, sham = (
        np.array([run.points[20].success for run in cell.arms[f"{kind}-5e-6"].values()])
        for kind in ("grpo", "sdpo", "sham")
    )
    whole, part = sdpo - grpo, sham - grpo
    chosen = np.random.default_rng(0).integers(len(whole), size=(RESAMPLES, len(whole)))
    wholes, parts = whole[chosen].mean(axis=1), part[chosen].mean(axis=1)
    tails = expanded_tails(len(whole))
    lo, hi = np.quantile(wholes, tails)
    if lo <= 0 <= hi:
        return {"share": None, "interval": None, "why": "H4's difference is not clear of 0"}
    return {
        "share": float(part.mean() / whole.mean()),
        "interval": [float(bound) for bound in np.quantile(parts / wholes, tails)],
    }


def dynamic_against_grpo(cell: Cell) -> dict[str, Any]:
    arms = cell.arms
    return {
        rate: as_table(in_success(f"dynamic − grpo at {rate}", arms[f"dynamic-{rate}"], arms[f"grpo-{rate}"], 20))
        for rate in ("5e-6", "2e-5")
    }


def as_table(found: Difference) -> dict[str, Any]:
    return {name: value for name, value in found._asdict().items() if name != "number"}


def reminded(cell: Cell) -> dict[str, Any]:
    """The untrained start with and without reminders, and what each trained arm's end is above the reminded ones."""
    starts = cell.starts
    conditions = list(next(iter(starts.values())).reminded)
    plain = {seed: start.plain for seed, start in starts.items()}
    found: dict[str, Any] = {"plain": hierarchical_bootstrap([point.shares for point in plain.values()])}
    for name in conditions:
        own = {seed: start.reminded[name] for seed, start in starts.items()}
        found[name] = {
            "success": hierarchical_bootstrap([point.shares for point in own.values()]),
            "above_plain": _above(own, plain),
            "arms_above": {
                arm: _above({seed: run.points[run.last_step] for seed, run in side.items()}, own)
                for arm, side in sides(cell).items()
            },
        }
    return found


def _above(first: Mapping[int, Point], second: Mapping[int, Point]) -> dict[str, Estimate]:
    interval, two_way = intervals_of([(first[seed], second[seed]) for seed in first])
    return {"interval": interval, "two_way": two_way}


def describe(cell: Cell) -> dict[str, Any]:
    return {
        "seeds": len(cell.starts),
        "orphans": cell.orphans,
        "best_rates": {kind: best_rates(cell, kind, RATES) for kind in ("grpo", "sdpo")},
        "levels": {name: level_of(side) for name, side in sides(cell).items()},
        "rollouts_to_level": {name: [one._asdict() for one in found] for name, found in times(cell).items()},
        "rollouts_saved_at_best_rates": saved_rollouts(cell),
        "sham_share_of_h4": sham_share(cell),
        "dynamic_against_grpo": dynamic_against_grpo(cell),
        "starts": reminded(cell),
    }


def curve_over_tokens(side: Side, last: int) -> list[tuple[float, float, float, float]]:
    """As `curve_of`, each step at the seeds' mean of million tokens until then."""
    return [
        (fmean(tokens_until(run, step) for run in side.values()) / 1e6, *band)
        for step, *band in curve_of(side)
        if step <= last
    ]
