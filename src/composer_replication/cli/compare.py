"""`recompose evaluate --compare A B …`"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from composer_replication.errors import UsageError


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
    from composer_replication.evaluation.outcomes import OutcomeChoice, read_arms

    if len(arguments) < 2:
        raise UsageError("a comparison needs at least two arms", "recompose evaluate --compare A B")
    if options.chart and options.chart.suffix != ".svg":
        raise UsageError(f"{options.chart} is not an .svg file", "--chart comparison.svg")
    arms = read_arms(arguments, OutcomeChoice(options.metric, options.split, options.phase, options.cluster))
    baseline = options.baseline or arms[0].name
    by_argument = {argument: arm.name for argument, arm in zip(arguments, arms, strict=True)}
    result = compare_arms(arms, by_argument.get(baseline, baseline), options.metric, options.paired)
    if options.chart:
        from composer_replication.evaluation.contrast import contrast_chart
        from composer_replication.runs import write_atomically

        write_atomically(options.chart, contrast_chart(result))
    if as_json:
        print(json.dumps({**result.model_dump(mode="json"), "chart": str(options.chart) if options.chart else None}))
    else:
        from .compare_report import show_comparison

        show_comparison(result, options.chart)
