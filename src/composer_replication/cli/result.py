"""The end of a run: as one JSON object, or as a person reads it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table


def show_result(result: Mapping[str, Any], as_json: bool) -> None:
    if as_json:
        print(json.dumps(result))
        return
    from composer_replication.evaluation.stats import Estimate, no_interval
    from composer_replication.evaluation.summary import told_repositories, told_rows_left_out

    console = Console(highlight=False)
    teachers = "simulated teachers" if result["simulated_teachers"] else "teachers"
    story = (
        f"{result['traces']} traces → {result['sites']} error sites → {result['hints']} hints → "
        f"{result['replies']} replies of {teachers} → {result['pairs']} pairs → {result['steps']} steps"
    )
    if not result["traces"]:
        story = f"{result['steps']} steps on their own rollouts alone"
    console.print(f"\n{story}")
    headline = {key: result[f"success_{key}"] for key in ("before", "after")} | {"difference": result["difference"]}
    console.print(f"Measured in {result['environment']}:")
    table = Table("held-out success", "before", "after", "difference [95 %]", "tasks")
    for split, row in {result["split"]: headline, **result["other_splits"]}.items():
        change = row["difference"]
        table.add_row(
            result["split_names"][split],
            f"{row['before']['mean']:.3f}",
            f"{row['after']['mean']:.3f}",
            no_interval(change["n"]) if change["lo"] is None else Estimate.model_validate(change).told(),
            str(change["n"]),
        )
    console.print(table)
    for sentence in (*told_repositories(result["repositories"]), *told_rows_left_out(result["rows_left_out"])):
        console.print(sentence, soft_wrap=True)
    losses = ", ".join(f"{name} {value:.3g}" for name, value in result["losses"].items() if value is not None)
    console.print(f"Late losses: {losses}. Spent: ${result['spent_micros'] / 1e6:.2f}. {result['seconds']:.0f} s.")
    console.print(f"Report: {result['report']}\nModel:  {result['run']}/training/model", soft_wrap=True)
