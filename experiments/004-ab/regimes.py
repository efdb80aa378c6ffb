"""The map: what each cell gained, whether the probed gap predicts it, and the headline. Reads results/."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import permutations
from pathlib import Path
from statistics import linear_regression, mean
from typing import Any, NamedTuple

from effects import Arms, Effect, by_arm, success_effect
from reading import Finished, Started, runs, starts

from composer_replication.config import ToolboxConfig
from composer_replication.environments.toolbox import task_by_id
from composer_replication.evaluation.resampling import bootstrap
from shared.runner.plan import Plan

FEWEST_POINTS = 0.02
"""A mean gain below that is called null, whatever its signs."""
TOLERANCE = 1e-12


class Cell(NamedTuple):
    name: str
    started: Mapping[int, Started]
    arms: Mapping[str, Mapping[int, Finished]]

    @property
    def seeds(self) -> list[int]:
        return sorted(self.arms["sdpo"])

    def gains(self, arm: str) -> dict[int, float]:
        """Over GRPO alone, seed by seed."""
        own, plain = self.arms[arm], self.arms["grpo"]
        return {seed: own[seed].numbers["success"] - plain[seed].numbers["success"] for seed in sorted(own)}

    @property
    def gap(self) -> float:
        return mean(self.started[seed].gap for seed in self.seeds)

    @property
    def flat(self) -> float:
        """Of GRPO's groups in its first steps, those whose rollouts all got one reward."""
        return mean(line["frac_reward_zero_std"] for run in self.arms["grpo"].values() for line in run.steps[:5])

    @property
    def grpo(self) -> float:
        return mean(run.numbers["success"] for run in self.arms["grpo"].values())

    @property
    def gain(self) -> float:
        return mean(self.gains("sdpo").values())


class Slope(NamedTuple):
    slope: float
    intercept: float
    p: float
    orders: int


def read_cells(plan: Plan, folder: Path) -> list[Cell]:
    cells = []
    for name in plan.regimes:
        started = starts(folder / name)
        cells.append(Cell(name, started, by_arm(runs(folder / name, started))))
    return cells


def slope_of(gaps: Sequence[float], gains: Sequence[float]) -> Slope:
    """Least squares; p over every way to hand the gaps to the cells."""
    fit = linear_regression(gaps, gains)
    middle, centre = mean(gaps), mean(gains)

    def strength(order: Sequence[float]) -> float:
        return abs(sum((gap - middle) * (gain - centre) for gap, gain in zip(order, gains, strict=True)))

    seen = strength(gaps)
    orders = [strength(order) for order in permutations(gaps)]
    return Slope(fit.slope, fit.intercept, sum(one >= seen - TOLERANCE for one in orders) / len(orders), len(orders))


def verdict(gains: Sequence[float]) -> str:
    """As the plan says: one sign in all seeds and a mean of at least two points."""
    one_sign = all(gain > 0 for gain in gains) or all(gain < 0 for gain in gains)
    if not one_sign or abs(mean(gains)) < FEWEST_POINTS:
        return "null"
    return "wins" if gains[0] > 0 else "hurts"


def cell_facts(cell: Cell) -> dict[str, Any]:
    started = [cell.started[seed] for seed in cell.seeds]
    return {
        "start": mean(one.success for one in started),
        "gap": mean(one.gap for one in started),
        "sham_gap": mean(one.right["sham"] - one.right["plain"] for one in started),
        "flat": cell.flat,
        "alarms": sum(bool(run.alarms) for own in cell.arms.values() for run in own.values()),
        "grpo": cell.grpo,
        "channels": {
            arm: {
                "success": mean(run.numbers["success"] for run in own.values()),
                "gains": list(cell.gains(arm).values()),
                "gain": mean(cell.gains(arm).values()),
                "two_way": success_effect(cell.arms, arm, "grpo").two_way,
                "verdict": verdict(list(cell.gains(arm).values())),
            }
            for arm, own in cell.arms.items()
            if arm != "grpo"
        },
    }


def headline_facts(folder: Path) -> dict[str, Any]:
    started = starts(folder)
    finished = runs(folder, started)
    arms = by_arm(finished)
    found: Effect = success_effect(arms, "sdpo", "grpo")
    return {
        "runs": len(finished),
        "start": bootstrap([one.success for one in started.values()], expanded=True),
        "gap": bootstrap([one.gap for one in started.values()], expanded=True),
        "sham_gap": bootstrap([one.right["sham"] - one.right["plain"] for one in started.values()], expanded=True),
        "right": {name: mean(one.right[name] for one in started.values()) for name in ("plain", "hint", "sham")},
        "levels": {
            arm: bootstrap([run.numbers["success"] for run in own.values()], expanded=True) for arm, own in arms.items()
        },
        "effect": found._asdict(),
        "clumps": clumps(found.by_seed.values()),
        "half_way": {arm: mean(run.curve[1][1] for run in own.values()) for arm, own in arms.items()},
        "by_calls": by_calls(arms),
        "alarms": sum(bool(run.alarms) for run in finished),
        "stopped": [run.header["stopped"] for run in finished if run.header["stopped"]],
    }


def clumps(gains: Iterable[float]) -> tuple[list[float], list[float]]:
    """The gains below and above the widest empty stretch between them."""
    ordered = sorted(gains)
    cut = max(range(1, len(ordered)), key=lambda place: ordered[place] - ordered[place - 1])
    return ordered[:cut], ordered[cut:]


def by_calls(arms: Arms) -> dict[str, dict[int, float]]:
    """Success by how many calls a task needs."""
    toolbox = ToolboxConfig.model_validate(next(iter(arms["grpo"].values())).header["config"]["toolbox"])
    calls = {task: len(task_by_id(toolbox, task).plan) for task in next(iter(arms["grpo"].values())).tasks}
    return {
        arm: {
            number: mean(share for run in own.values() for task, share in run.tasks.items() if calls[task] == number)
            for number in sorted(set(calls.values()))
        }
        for arm, own in arms.items()
    }
