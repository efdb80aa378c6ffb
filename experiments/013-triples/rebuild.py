"""The registered analysis by the shared code, and what was looked at after it, which is no test.

recompose experiment rebuild experiments/013-triples
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from statistics import fmean

from shared.analysis.rebuild import Analysed, analysed, main
from shared.analysis.registered import Difference, Side, at_best_rate, in_speed, in_success, over_seeds
from shared.analysis.tabled import points, table
from shared.analysis.trained import Cell, Trained
from shared.runner.plan import Plan

REGIME, LOWER_RATE = "own-teachers", "2e-5"
MIDDLE, END = range(8, 13), range(16, 21)
"""Steps between which the likelihood of the chosen action is compared."""


def with_afterthoughts(experiment: str, plan: Plan, cells: Mapping[str, Cell]) -> Analysed:
    found, cell = analysed(experiment, plan, cells), cells[REGIME]
    best = {kind: at_best_rate(cell, kind, plan.raw["rates"]) for kind in ("trdpo", "sft", "grpo")}
    lower = {kind: cell.arms[f"{kind}-{LOWER_RATE}"] for kind in best}
    differences = [
        *in_both("trdpo − grpo", best["trdpo"], best["grpo"]),
        *in_both(f"trdpo − sft at {LOWER_RATE}", lower["trdpo"], lower["sft"]),
        *in_both(f"trdpo − grpo at {LOWER_RATE}", lower["trdpo"], lower["grpo"]),
    ]
    rises = {kind: over_seeds([rise_of_chosen(run) for run in best[kind].values()]) for kind in ("trdpo", "sft")}
    tables = {
        "afterwards": {f"{one.sides}, {one.number}": one.interval for one in differences},
        "rise_of_chosen": rises,
    }
    rows = [[one.sides, one.number, points(one.interval)] for one in differences]
    risen = "log-likelihood of the chosen action, steps 8–12 to 16–20, nats"
    rows += [[kind, risen, points(interval, unit=1)] for kind, interval in rises.items()]
    looked_at = "\n\n## Looked at afterwards, not planned\n\n" + table(["", "number", "found"], rows) + "\n"
    return Analysed({**found.tables, **tables}, found.page.rstrip("\n") + looked_at, found.figures)


def in_both(sides: str, first: Side, second: Side) -> list[Difference]:
    last = next(iter(first.values())).last_step
    return [in_speed(sides, first, second), in_success(sides, first, second, last)]


def rise_of_chosen(run: Trained) -> float:
    shift = {line["step"]: line["replay/chosen_shift"] for line in run.steps if "replay/chosen_shift" in line}
    middle, end = (fmean(shift[step] for step in steps if step in shift) for steps in (MIDDLE, END))
    return end - middle


if __name__ == "__main__":
    main(Path(__file__).parent, with_afterthoughts)
