"""`recompose evaluate RUN --on sessions`"""

from __future__ import annotations

import json as json_module
from collections import Counter
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from composer_replication.environments.opening import open_environment
from composer_replication.errors import UsageError
from composer_replication.pipeline import run_stage
from composer_replication.runs import Run
from composer_replication.stages.session_turns import time_foreseen

from .common import quiet_libraries, working_on
from .train_report import told_load, told_sessions_time

if TYPE_CHECKING:
    from composer_replication.evaluation.sessions import Measure

MEANING: dict[Measure, str] = {
    "good turns": "log-probability per token of good turns (higher is better)",
    "corrections": "of the actor's correction, over its error (higher is better)",
    "preferred": "of what teachers prefer, over what they reject (higher is better)",
    "rewritten": "share of error turns that are wrong when written again (lower is better)",
}


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
    print(told_sessions_time(**found))
    if load:
        print(told_load(**load, what="it"))


def evaluate_sessions(run: Run, as_json: bool) -> None:
    from composer_replication.evaluation.compare import PHASES
    from composer_replication.evaluation.sessions import TurnMeasure, changes, conclusion
    from composer_replication.training.planning.doubts import no_tools_shown

    with working_on(run) as progress:
        run_stage(run, "sessions", progress)
    stage = run.stage("sessions")
    found, counts = stage.read(TurnMeasure), stage.counts
    rows, missing = changes(found)
    unseen = counts.get("tools_not_shown", 0)
    wrong = {phase: dict(Counter(one.reason for one in found if one.reason and one.phase == phase)) for phase in PHASES}
    if as_json:
        result = {"sessions": counts["sessions"], "skipped": counts["skipped"], "missing": missing, "wrong": wrong}
        result["tools_not_shown"] = unseen
        told = [{**row.model_dump(), "verdict": row.verdict} for row in rows]
        print(json_module.dumps({**result, "changes": told, "conclusion": conclusion(rows)}))
        return
    console = Console(highlight=False)
    console.print(f"{counts['sessions']} sessions that training did not see:")
    table = Table("", "before", "after", "difference [95 %]", "turns", "sessions")
    for row in rows:
        table.add_row(
            MEANING[row.measure],
            f"{row.before.mean:.3f}",
            f"{row.after.mean:.3f}",
            row.difference.told("+.3g"),
            str(row.turns),
            str(row.difference.n),
        )
    console.print(table)
    if unseen:
        console.print(f"Doubtful: {no_tools_shown(unseen)}.", soft_wrap=True)
    for phase, reasons in wrong.items():
        if reasons:
            console.print(f"Wrong {phase}: " + ", ".join(f"{number} {reason}" for reason, number in reasons.items()))
    for measure, reason in missing.items():
        console.print(f"Not measured: {measure}, {reason}")
    if any(counts["skipped"].values()):
        listed = ", ".join(f"{number} of {measure}" for measure, number in counts["skipped"].items())
        console.print(f"Could not be shown to the policy: {listed}")
    verdicts = ", ".join(
        f"{row.measure} {row.verdict} ({row.turns} turns, {row.difference.n} sessions)" for row in rows
    )
    console.print(
        f"Conclusion: {conclusion(rows)} on sessions that training did not see ({verdicts or 'nothing measured'}); "
        f"every turn lies in {run.path / 'sessions'}.",
        soft_wrap=True,
    )
