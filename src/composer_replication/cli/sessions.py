"""`recompose evaluate RUN --on sessions`"""

from __future__ import annotations

import json as json_module

from rich.console import Console
from rich.table import Table

from composer_replication.environments.opening import open_environment
from composer_replication.errors import UsageError
from composer_replication.pipeline import run_stage
from composer_replication.runs import Run
from composer_replication.stages.session_turns import time_foreseen

from .common import quiet_libraries, working_on
from .train_report import told_load, told_sessions_time


def foresee_sessions(run: Run, as_json: bool) -> None:
    from composer_replication.training.models.loading import device_type
    from composer_replication.training.planning.load import load_here

    quiet_libraries()
    on_gpu = device_type() == "cuda"
    with open_environment(run.config) as environment:
        found = time_foreseen(run, environment, on_gpu)
    if found is None:
        raise UsageError(
            f"{run.path}: no session is held out, or the config of {run.config.model.name} is not on this machine",
            "start a run with more sessions, or with a larger evaluation.held_out_sessions; recompose doctor",
        )
    load = None if on_gpu else load_here()
    if as_json:
        print(json_module.dumps({**found, "load": load}))
        return
    print(told_sessions_time(found))
    if load:
        print(told_load(**load, what="it"))


def evaluate_sessions(run: Run, as_json: bool) -> None:
    from composer_replication.evaluation.session_report import PAGE, read_sessions, write_page
    from composer_replication.evaluation.sessions import conclusion

    with working_on(run) as progress:
        run_stage(run, "sessions", progress)
    if not (run.path / PAGE).exists():
        write_page(run)
    report = read_sessions(run)
    if as_json:
        counts = report.counts
        result = {"sessions": counts["sessions"], "kinds": counts.get("kinds", {}), "missing": report.missing}
        result |= {"wrong": report.wrong, "tools_not_shown": counts.get("tools_not_shown", 0)}
        told = [{**row.model_dump(), "verdict": row.verdict, "doubtful": row.is_doubtful} for row in report.rows]
        end = {"conclusion": conclusion(report.rows), "report": str(run.path / PAGE), "next": report.next}
        print(json_module.dumps({**result, "changes": told, **end}))
        return
    console = Console(highlight=False)
    console.print(f"{report.title}:", soft_wrap=True)
    table = Table("", "before", "after", "difference [95 %]", "turns", "sessions")
    for row in report.rows:
        table.add_row(*report.cells(row))
    console.print(table)
    for line in (*report.remarks(), f"Conclusion: {report.conclusion}", f"next: {report.next}"):
        console.print(line, soft_wrap=True, markup=False)
