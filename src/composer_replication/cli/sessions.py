"""`recompose evaluate RUN --on sessions`"""

from __future__ import annotations

import json as json_module
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from composer_replication.environments.opening import open_environment
from composer_replication.errors import UsageError
from composer_replication.pipeline import refuse_stale, run_stage
from composer_replication.runs import Run, write_atomically
from composer_replication.stages.held_out import refuse_none_held_out
from composer_replication.stages.session_turns import time_foreseen

from .common import quiet_libraries, say_at_once, working_on
from .train_report import told_load, told_sessions_time

if TYPE_CHECKING:
    from composer_replication.evaluation.sessions import Change, Measure

PAGE = "sessions.html"
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
    refuse_stale(run, "sessions")
    say_at_once("counting tokens of held-out turns …", as_json)
    on_gpu = device_type() == "cuda"
    refuse_none_held_out(run)
    with open_environment(run.config) as environment:
        found = time_foreseen(run, environment, on_gpu)
    if found is None:
        raise UsageError(f"the config of {run.config.model.name} is not on this machine", "recompose doctor")
    load = None if on_gpu else load_here()
    if as_json:
        print(json_module.dumps({**found, "load": load}))
        return
    print(told_sessions_time(found))
    if load:
        print(told_load(**load, what="it"))


def evaluate_sessions(run: Run, as_json: bool) -> None:
    from composer_replication.evaluation.compare import PHASES
    from composer_replication.evaluation.session_advice import next_step
    from composer_replication.evaluation.session_page import render_sessions
    from composer_replication.evaluation.sessions import TurnMeasure, changes, conclusion

    with working_on(run) as progress:
        run_stage(run, "sessions", progress)
    found, counts = run.stage("sessions").read(TurnMeasure), run.stage("sessions").counts
    rows, missing = changes(found)
    wrong = {phase: dict(Counter(one.reason for one in found if one.reason and one.phase == phase)) for phase in PHASES}
    then = next_step(run.path, run.config, rows, counts.get("kinds", {}))
    remarks = [*_remarks(run, rows, missing, wrong), f"next: {then}"]
    page = render_sessions(run.path, counts["sessions"], rows, MEANING, remarks, found)
    write_atomically(run.path / PAGE, page)
    if not as_json:
        _show(counts["sessions"], rows, remarks)
        return
    result = {"sessions": counts["sessions"], "kinds": counts.get("kinds", {}), "missing": missing, "wrong": wrong}
    result |= {"tools_not_shown": counts.get("tools_not_shown", 0), "report": str(run.path / PAGE), "next": then}
    told = [{**row.model_dump(), "verdict": row.verdict, "doubtful": row.is_doubtful} for row in rows]
    print(json_module.dumps({**result, "changes": told, "conclusion": conclusion(rows)}))


def _remarks(
    run: Run, rows: Sequence[Change], missing: Mapping[Measure, str], wrong: Mapping[str, Mapping[str, int]]
) -> Iterator[str]:
    from composer_replication.evaluation.session_advice import doubt, what_is_measured
    from composer_replication.evaluation.sessions import conclusion
    from composer_replication.training.planning.doubts import no_tools_shown

    counts = run.stage("sessions").counts
    if unseen := counts.get("tools_not_shown", 0):
        yield f"Doubtful: {no_tools_shown(unseen)}."
    yield from (f"Doubtful: {doubt(row, run.path, run.config)}" for row in rows if row.is_doubtful)
    for phase, reasons in wrong.items():
        if reasons:
            yield f"Wrong {phase}: " + ", ".join(f"{number} {reason}" for reason, number in reasons.items())
    yield from (f"Not measured: {measure}, {reason}" for measure, reason in missing.items())
    if kinds := counts.get("kinds"):
        yield f"Measured: {what_is_measured(kinds, run.config.training.max_tokens)}"
    verdicts = ", ".join(f"{row.measure} {row.verdict}{', doubtful' * row.is_doubtful} ({row.size})" for row in rows)
    yield (
        f"Conclusion: {conclusion(rows)} on sessions that training did not see ({verdicts or 'nothing measured'}); "
        f"every turn lies in {run.path / PAGE}."
    )


def _show(held_out: int, rows: Sequence[Change], remarks: Sequence[str]) -> None:
    console = Console(highlight=False)
    console.print(f"{held_out} sessions held out; each row counts those that it has turns of:", soft_wrap=True)
    table = Table("", "before", "after", "difference [95 %]", "turns", "sessions")
    for row in rows:
        table.add_row(
            f"{MEANING[row.measure]}{', doubtful' * row.is_doubtful}",
            f"{row.before.mean:.3f}",
            f"{row.after.mean:.3f}",
            row.difference.told("+.3g"),
            str(row.turns),
            str(row.difference.n),
        )
    console.print(table)
    for line in remarks:
        console.print(line, soft_wrap=True, markup=False)
