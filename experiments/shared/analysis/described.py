"""What a plan shows besides its tests: levels of all arms, starts, lines over a gap, differences by triple of teachers.

Gives plain dictionaries for tables.json; an `Estimate` stays one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from composer_replication.evaluation.resampling import hierarchical_bootstrap
from shared.runner.plan import Plan

from .registered import Side, Tested, at_best_rate, best_rates, difference, lines_over, over_seeds
from .trained import Cell, Start


def kinds_of(plan: Plan, regime: str) -> list[str]:
    """Arms without their rates."""
    rates = plan.raw.get("rates", [])
    return list(dict.fromkeys(arm.removesuffix(f"-{rate}") for arm in plan.arms(regime) for rate in rates or [""]
                              if not rates or arm.endswith(f"-{rate}")))  # fmt: skip


def describe(plan: Plan, cells: Mapping[str, Cell], tested: Sequence[Tested]) -> dict[str, Any]:
    rates = plan.raw.get("rates", [])
    return {
        "orphans": sum(cell.orphans for cell in cells.values()),
        "regimes": {regime: _regime(plan, regime, cell) for regime, cell in cells.items()},
        "best_rates": {
            kind: Counter(best_rates(cell, kind, rates).values())
            for regime, cell in cells.items()
            for kind in (kinds_of(plan, regime) if rates else [])
        },
        "lines": {
            name: {
                "sides": " − ".join(test["sides"]),
                "over": test["over"],
                "slope": over_seeds([slope for slope, _ in lines.values()]),
                "intercept": over_seeds([intercept for _, intercept in lines.values()]),
            }
            for name, test in plan.raw.get("described", {}).items()
            for lines in [lines_over(test, cells, rates)]
        },
        "differences": _differences(plan, cells),
        "triples": _triples(plan, cells, tested),
    }


def sides_of(plan: Plan, regime: str, cell: Cell) -> dict[str, Side]:
    """Every arm, and with several rates each kind at its best."""
    rates = plan.raw.get("rates", [])
    best = {f"{kind}, best": at_best_rate(cell, kind, rates) for kind in kinds_of(plan, regime)} if rates else {}
    return {**best, **cell.arms}


def _regime(plan: Plan, regime: str, cell: Cell) -> dict[str, Any]:
    starts = list(cell.starts.values())
    return {
        "start": over_seeds([start.plain.success for start in starts]),
        "right": _over_starts(starts, [start.right for start in starts]),
        "reminded": _over_starts(
            starts, [{name: point.success for name, point in start.reminded.items()} for start in starts]
        ),
        "arms": {name: _level(side) for name, side in sides_of(plan, regime, cell).items()},
    }


def curve_of(side: Side) -> list[tuple[float, float, float, float]]:
    """(step, mean, lo, hi) over seeds, at the steps that all seeds have."""
    shared = [step for step in next(iter(side.values())).points if all(step in run.points for run in side.values())]
    bands = [over_seeds([run.points[step].success for run in side.values()]) for step in shared]
    return [(step, band.mean, band.lo, band.hi) for step, band in zip(shared, bands, strict=True)]


def _over_starts(starts: Sequence[Start], values: Sequence[Mapping[str, float]]) -> dict[str, Any]:
    shared = [name for name in values[0] if all(name in one for one in values)]
    return {name: over_seeds([one[name] for one in values]) for name in shared}


def _level(side: Side) -> dict[str, Any]:
    runs = list(side.values())
    names = [name for name in runs[0].numbers if all(name in run.numbers for run in runs) and name != "success"]
    return {
        "seeds": len(runs),
        "speed": over_seeds([run.speed for run in runs]),
        "curve": {step: dict(zip(("mean", "lo", "hi"), band, strict=True)) for step, *band in curve_of(side)},
        "success": hierarchical_bootstrap([run.points[run.last_step].shares for run in runs]),
        **{name: over_seeds([run.numbers[name] for run in runs]) for name in names},
        "alarms": Counter(alarm for run in runs for alarm in run.alarms),
        "stopped": {seed: run.stopped for seed, run in side.items() if run.stopped},
    }


def _differences(plan: Plan, cells: Mapping[str, Cell]) -> list[dict[str, Any]]:
    """Of all sides that a test names, in every regime, in speed and in success at the end; no tests."""
    rates, pairs = plan.raw.get("rates", []), dict.fromkeys(tuple(test["sides"]) for test in plan.raw["tests"].values())
    found: list[dict[str, Any]] = []
    for regime, cell in cells.items():
        last = next(iter(next(iter(cell.arms.values())).values())).last_step
        for sides in pairs:
            for number in ({}, {"success_at": last}):
                one = difference({"sides": sides, "regime": regime, **number}, cells, rates)
                found.append({"sides": one.sides, "number": one.number, "interval": one.interval})
    return found


def _triples(plan: Plan, cells: Mapping[str, Cell], tested: Sequence[Tested]) -> list[dict[str, Any]]:
    """By seed: its triple of teachers, how often what they chose was right, and every tested difference."""
    if not isinstance(plan.raw.get("teachers"), list):
        return []
    return [
        {
            "seed": seed,
            "kind": plan.triple(seed)["kind"],
            "pairs": data["pairs"],
            "chosen_right": data["chosen_right"] / max(1, data["pairs"]),
            **{one.name: one.difference.by_seed[seed] for one in tested},
        }
        for cell in cells.values()
        for seed, data in cell.data.items()
    ]
