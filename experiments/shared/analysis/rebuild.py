"""Every table and figure of a plan from the raw files. Needs no GPU and trains nothing.

Reads plan.toml and results/<regime>; writes results/tables.json, results/tables.md and figures/*.svg. While a run of
the plan is missing it writes nothing, says how many are, and ends with exit code 1.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from composer_replication.errors import RecomposeError
from composer_replication.evaluation.stats import Estimate
from composer_replication.runs import write_atomically
from shared.curves_chart import Curve, curves_chart
from shared.prose import wrapped
from shared.runner.plan import Plan, read_plan
from shared.scatter_chart import Cell as Scattered
from shared.scatter_chart import scatter_chart

from .described import curve_of, describe, kinds_of
from .registered import at_best_rate, lines_over, points_over, verdicts
from .tabled import page
from .trained import Cell, read_results


class Analysed(NamedTuple):
    tables: Mapping[str, Any]
    page: str
    figures: Mapping[str, str]
    """By file name, as SVG text."""


def analysed(experiment: str, plan: Plan, cells: Mapping[str, Cell]) -> Analysed:
    found = verdicts(plan.raw["tests"], cells, plan.raw.get("rates", []))
    described = describe(plan, cells, found)
    registered = [{**one._asdict(), "difference": one.difference._asdict()} for one in found]
    return Analysed({"registered": registered, **described}, page(experiment, found, described), figures(plan, cells))


def main(folder: Path, analyse: Callable[[str, Plan, Mapping[str, Cell]], Analysed] = analysed) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plan", type=Path, default=folder / "plan.toml")
    parser.add_argument("--results", type=Path, default=folder / "results")
    parser.add_argument("--figures", type=Path, default=folder / "figures")
    given = parser.parse_args()
    plan = read_plan(given.plan)
    try:
        cells = read_results(plan, given.results, folder.name)
    except RecomposeError as error:
        sys.exit(str(error))
    tables, shown, drawn = analyse(folder.name, plan, cells)
    write_atomically(given.results / "tables.json", json.dumps(tables, indent=1, default=plain) + "\n")
    write_atomically(given.results / "tables.md", wrapped(shown))
    given.figures.mkdir(exist_ok=True)
    for name, picture in drawn.items():
        write_atomically(given.figures / f"{name}.svg", picture)
    print(shown)


def figures(plan: Plan, cells: Mapping[str, Cell]) -> dict[str, str]:
    """By file name: success while training, by regime, and each line over a gap."""
    rates = plan.raw.get("rates", [])
    drawn: dict[str, str] = {}
    for regime, cell in cells.items():
        curves: list[Curve] = []
        for kind in kinds_of(plan, regime):
            side = at_best_rate(cell, kind, rates)
            curves.append(Curve(kind, curve_of(side)))
        drawn[f"curves-{regime}"] = curves_chart(
            f"Held-out success while training, {regime}", "training step", "share of held-out tasks", curves, 1.0
        )
    for name, test in plan.raw.get("described", {}).items():
        points = points_over(test, cells, rates)
        lines = list(lines_over(test, cells, rates).values())
        middle = sum(slope for slope, _ in lines) / len(lines), 100 * sum(start for _, start in lines) / len(lines)
        drawn[f"gain-{name}"] = scatter_chart(
            f"{' − '.join(test['sides'])} by what the probe saw",
            f"{test['over']} of the start, points",
            "difference in speed, points",
            [Scattered(regime, [(100 * x, 100 * y) for x, y in own.values()]) for regime, own in points.items()],
            middle,
        )
    return drawn


def plain(value: object) -> object:
    if isinstance(value, Estimate):
        return value.model_dump(exclude={"schema_version"})
    raise TypeError(f"{type(value).__name__} in the tables")
