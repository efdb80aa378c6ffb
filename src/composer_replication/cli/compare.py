"""`recompose evaluate --compare A B …`"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter
from rich.console import Console
from rich.table import Table
from rich.text import Text

from composer_replication.errors import UsageError
from composer_replication.evaluation.charts import Scale, ticks
from composer_replication.evaluation.contrast import ArmComparison, Comparison
from composer_replication.evaluation.stats import Estimate, no_interval


@Parameter(name="*")
@dataclass(frozen=True)
class ComparisonOptions:
    """What --compare compares, and how."""

    baseline: Annotated[str | None, Parameter(help="The arm that the others are compared with; the first.")] = None
    metric: Annotated[
        str, Parameter(help="A field of the outcomes, pass@K, area (under success over steps) or area:FIELD.")
    ] = "success"
    paired: Annotated[
        Literal["auto", "task", "seed", "no"], Parameter(help="What makes two outcomes belong together.")
    ] = "auto"
    split: Annotated[str | None, Parameter(help="Which split of the tasks; the first there is.")] = None
    phase: Annotated[Literal["before", "after"], Parameter(help="Of runs: the policy before or after training.")] = (
        "after"
    )
    cluster: Annotated[str, Parameter(help="Field that says which tasks hang together.")] = "repository"
    chart: Annotated[Path | None, Parameter(help="Write a chart to this .svg file.")] = None


def compare(arguments: Sequence[str], options: ComparisonOptions, as_json: bool) -> None:
    from composer_replication.evaluation.contrast import compare_arms
    from composer_replication.evaluation.outcomes import OutcomeChoice, read_arms, read_phases

    if not arguments:
        raise UsageError("a comparison needs two arms, or one run", "recompose evaluate --compare A B")
    if options.chart and options.chart.suffix != ".svg":
        raise UsageError(f"{options.chart} is not an .svg file", "--chart comparison.svg")
    choice = OutcomeChoice(options.metric, options.split, options.phase, options.cluster)
    if len(arguments) == 1:
        if options.phase == "before":
            raise UsageError("one arm is compared in both phases: --phase chooses one of both", "leave out --phase")
        arms = read_phases(arguments[0], choice)
    else:
        arms = read_arms(arguments, choice)
    baseline = options.baseline or arms[0].name
    by_argument = {argument: arm.name for argument, arm in zip(arguments, arms, strict=False)}
    result = compare_arms(arms, by_argument.get(baseline, baseline), options.metric, options.paired)
    if options.chart:
        from composer_replication.evaluation.contrast import contrast_chart
        from composer_replication.runs import write_atomically

        write_atomically(options.chart, contrast_chart(result))
    if as_json:
        print(json.dumps({**result.model_dump(mode="json"), "chart": str(options.chart) if options.chart else None}))
    else:
        show_comparison(result, options.chart)


DRAWING_COLUMNS = 48
MEAN, LINE, ZERO = "●", "─", "┊"


def show_comparison(result: ArmComparison, chart: Path | None) -> None:
    console = Console(highlight=False)
    split = f", split {result.split}" if result.split else ""
    table = Table(f"{result.metric}{split}", "mean [95 %]", "runs", "tasks", title="arms", title_justify="left")
    for arm in result.arms:
        table.add_row(Text(arm.name), Text(_interval(arm.estimate)), str(len(arm.seeds)), str(arm.tasks))
    console.print(table)
    table = Table("arm", title=Text(f"difference from {result.baseline}"), title_justify="left")
    for heading in ("difference [95 %]", "p (Holm)", "detectable", "verdict"):
        table.add_column(heading, no_wrap=True)
    for row in result.comparisons:
        effect = row.minimum_detectable_effect
        table.add_row(
            Text(row.arm),
            Text(_interval(row.difference, signed=True)),
            _p(row.p_holm),
            "—" if effect is None else _number(effect, 3),
            row.verdict,
        )
    console.print(table)
    for line in drawing(result.comparisons):
        console.print(Text(line), soft_wrap=True)
    for row in result.comparisons:
        console.print(Text(f"\n{row.arm}: {_how(row)}"), soft_wrap=True)
        for note in row.notes:
            console.print(Text(f"  {note}"), soft_wrap=True)
    for note in result.notes:
        console.print(Text(f"\n{note}"), soft_wrap=True)
    if chart:
        console.print(Text(f"\nChart: {chart}"), soft_wrap=True)


def drawing(rows: tuple[Comparison, ...]) -> list[str]:
    """One line per arm on a common axis, with the axis below."""
    ends = [value for row in rows for value in (row.difference.lo, row.difference.hi)]
    marks = ticks(min(0.0, *ends), max(0.0, *ends), 4)
    scale = Scale(marks[0], marks[-1], 0, DRAWING_COLUMNS - 1)
    width = min(24, max(len(row.arm) for row in rows))
    lines = [f"{row.arm[:width]:<{width}} {_drawn(row.difference, scale)}" for row in rows]
    axis = [" "] * (DRAWING_COLUMNS + 8)
    for mark in (marks[0], 0.0, marks[-1]):
        name = f"{mark:+g}" if mark else "0"
        start = min(max(0, round(scale(mark)) - len(name) // 2), len(axis) - len(name))
        axis[start : start + len(name)] = name
    return [*lines, f"{'':<{width}} {''.join(axis).rstrip()}"]


def _drawn(estimate: Estimate, scale: Scale) -> str:
    lo, mean, hi, zero = (round(scale(value)) for value in (estimate.lo, estimate.mean, estimate.hi, 0.0))
    cells = [LINE if lo <= column <= hi else " " for column in range(DRAWING_COLUMNS)]
    cells[zero] = ZERO
    cells[mean] = MEAN
    return "".join(cells).rstrip()


def _how(row: Comparison) -> str:
    pairs = {"seed": "paired by seed and task", "task": "paired by task", "no": "not paired"}[row.paired]
    tests = ", ".join(f"{test.name} p = {_p(test.p)}" for test in (row.test, *row.other_tests))
    said = f"{pairs}; n = {row.difference.n} {row.unit}s; {row.interval}; {tests}"
    said += f" (smallest possible {_p(row.test.floor)})." if row.test.floor else "."
    if row.clustered and row.clustered != row.difference:
        said += f" Errors clustered by {row.clustered_by}: {_interval(row.clustered, signed=True)}."
    if row.minimum_detectable_effect is not None:
        said += f" An effect of {_number(row.minimum_detectable_effect, 3)} would be found 4 times in 5."
    return said


def _interval(estimate: Estimate, signed: bool = False) -> str:
    digits = 3 if max(abs(estimate.lo), abs(estimate.hi)) < 10 else 1
    mean, lo, hi = (_number(value, digits, signed) for value in (estimate.mean, estimate.lo, estimate.hi))
    return f"{mean} [{lo}, {hi}]" if estimate.has_width else f"{mean} [{no_interval(estimate.n)}]"


def _number(value: float, digits: int, signed: bool = False) -> str:
    return f"{value:+,.{digits}f}" if signed else f"{value:,.{digits}f}"


def _p(p: float) -> str:
    return f"{p:.3f}" if p >= 0.001 else f"{p:.1g}"
