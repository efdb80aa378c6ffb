"""What the plan shows besides its tests, with intervals: levels of all arms, times to a level, reminders.

Gives plain dictionaries for tables.json; an `Estimate` stays one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from statistics import fmean
from typing import Any

import numpy as np
from hypotheses import in_success
from measured import (
    HORIZON,
    Side,
    TimeToLevel,
    at_best_rate,
    best_rates,
    over_seeds,
    speed,
    success_at,
    time_to_level,
)
from trained import Point, Results

from composer_replication.evaluation.clusters import two_way_interval
from composer_replication.evaluation.resampling import RESAMPLES, expanded_tails, hierarchical_bootstrap
from composer_replication.evaluation.stats import Estimate

SHOWN_STEPS = (10, 20, 40)
LEVELS = (0.5, 0.7, 0.8)
BEST = " at its best rate"


def sides(results: Results) -> dict[str, Side]:
    """Every arm, and the two that have a best rate."""
    return {**results.arms, **{f"{kind}{BEST}": at_best_rate(results, kind) for kind in ("grpo", "sdpo")}}


def level_of(side: Side) -> dict[str, Any]:
    runs = list(side.values())
    shown = [step for step in SHOWN_STEPS if all(step in run.points for run in runs)]
    names = [name for name in runs[0].numbers if all(name in run.numbers for run in runs) and name != "success"]
    return {
        "seeds": len(runs),
        "success": {step: success_at(side, step) for step in shown},
        "success_at_end": hierarchical_bootstrap([run.points[run.last_step].shares for run in runs]),
        "speed": over_seeds([speed(run) for run in runs]) if HORIZON in shown else None,
        **{name: over_seeds([run.numbers[name] for run in runs]) for name in names},
        "alarms": Counter(alarm for run in runs for alarm in run.alarms),
        "stopped": {run.seed: run.stopped for run in runs if run.stopped},
    }


def times(results: Results) -> dict[str, list[TimeToLevel]]:
    """Rollouts to each level, of every side that has the horizon."""
    return {
        name: [time_to_level(side, level) for level in LEVELS]
        for name, side in sides(results).items()
        if all(HORIZON in run.points for run in side.values())
    }


def saved_rollouts(results: Results) -> dict[float, Estimate]:
    """grpo − sdpo, each at its best rate, in restricted rollouts to a level."""
    grpo, sdpo = (at_best_rate(results, kind) for kind in ("grpo", "sdpo"))
    pairs = {level: (time_to_level(grpo, level).by_seed, time_to_level(sdpo, level).by_seed) for level in LEVELS}
    return {level: over_seeds([slow[seed] - quick[seed] for seed in slow]) for level, (slow, quick) in pairs.items()}


def sham_share(results: Results) -> dict[str, Any]:
    """Of H4's difference, the share that sham hints recover: a ratio of means over seeds, both drawn again together.

    No interval where the draws of H4's difference come near 0: the ratio has none there.
    """
    grpo, sdpo, sham = (
        np.array([run.points[20].success for run in results.arms[f"{kind}-5e-6"].values()])
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


def dynamic_against_grpo(results: Results) -> dict[str, Any]:
    arms = results.arms
    return {
        rate: in_success(f"dynamic − grpo at {rate}", arms[f"dynamic-{rate}"], arms[f"grpo-{rate}"], 20)._asdict()
        for rate in ("5e-6", "2e-5")
    }


def reminded(results: Results) -> dict[str, Any]:
    """The untrained start with and without reminders, and what each trained arm's end is above the reminded ones."""
    starts = results.starts
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
                for arm, side in sides(results).items()
            },
        }
    return found


def _above(first: Mapping[int, Point], second: Mapping[int, Point]) -> dict[str, Estimate]:
    tables = [[a - b for a, b in zip(first[seed].shares, second[seed].shares, strict=True)] for seed in first]
    return {"interval": hierarchical_bootstrap(tables), "two_way": two_way_interval(tables).estimate}


def describe(results: Results) -> dict[str, Any]:
    return {
        "seeds": len(results.seeds),
        "orphans": results.orphans,
        "best_rates": {kind: best_rates(results, kind) for kind in ("grpo", "sdpo")},
        "levels": {name: level_of(side) for name, side in sides(results).items()},
        "rollouts_to_level": {name: [one._asdict() for one in found] for name, found in times(results).items()},
        "rollouts_saved_at_best_rates": saved_rollouts(results),
        "sham_share_of_h4": sham_share(results),
        "dynamic_against_grpo": dynamic_against_grpo(results),
        "starts": reminded(results),
    }


def curve_of(side: Side) -> list[tuple[float, float, float, float]]:
    """(step, mean, lo, hi) over seeds, at the steps that all seeds have."""
    shared = [step for step in next(iter(side.values())).points if all(step in run.points for run in side.values())]
    bands = [over_seeds([run.points[step].success for run in side.values()]) for step in shared]
    return [(step, band.mean, band.lo, band.hi) for step, band in zip(shared, bands, strict=True)]


def curve_over_tokens(side: Side, last: int) -> list[tuple[float, float, float, float]]:
    """As `curve_of`, each step at the seeds' mean of million tokens until then."""
    return [
        (fmean(run.tokens_until(step) for run in side.values()) / 1e6, *band)
        for step, *band in curve_of(side)
        if step <= last
    ]
