"""`recompose evaluate RUN`, also `--on sessions` or `--probe`, and `recompose evaluate --compare A B …`"""

from __future__ import annotations

import json as json_module
import sys
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter
from rich.console import Console
from rich.table import Table

from composer_replication.environments.opening import open_environment
from composer_replication.errors import UsageError, quoted
from composer_replication.pipeline import run_stage
from composer_replication.runs import Run, write_records
from composer_replication.stages.ingestion import rollout_tokens
from composer_replication.stages.policy import load_model, model_folder

from .common import Json, RunFolder, quiet_libraries, working_on
from .compare import ComparisonOptions, compare
from .progress import open_progress
from .result import show_result

if TYPE_CHECKING:
    from composer_replication.evaluation.probe import KindGap
    from composer_replication.evaluation.sessions import Measure

TRIED = "evaluation/probe.jsonl.zst"
MEANING: dict[Measure, str] = {
    "good turns": "log-probability per token of good turns (higher is better)",
    "corrections": "of the actor's correction, over its error (higher is better)",
    "preferred": "of what teachers prefer, over what they reject (higher is better)",
    "rewritten": "share of error turns that are wrong when written again (lower is better)",
}


def evaluate(
    run: RunFolder | None = None,
    /,
    *,
    compare_arms: Annotated[
        list[str] | None,
        Parameter(
            name="--compare",
            consume_multiple=True,
            negative="",
            help="Two or more arms, PATH or NAME=PATH: run folders, JSONL(.zst) of outcomes, folders of seeds.",
        ),
    ] = None,
    options: ComparisonOptions | None = None,
    on: Annotated[
        Literal["tasks", "sessions"],
        Parameter(help="Held-out tasks of the environment, or held-out turns of one's own sessions."),
    ] = "tasks",
    probe_hints: Annotated[
        bool, Parameter(name="--probe", negative="", help="Only measure what hints change for the starting policy.")
    ] = False,
    sites: Annotated[int, Parameter(help="Error turns that --probe looks at.")] = 256,
    json: Json = False,
) -> None:
    """Compare the policy of RUN before and after training on held-out tasks, and write RUN/report.html.

    With --on sessions, compare both on sessions that training did not see: how likely they find the actor's turns, and
    what they write at its errors.
    With --probe, write error turns again with a hint, without and with a sham: does channel 2 have something to teach?
    With --compare, compare the outcomes of runs that are there: nothing is run.
    """
    if compare_arms is not None:
        if run is not None:
            raise UsageError(f"{run} stands before --compare", f"recompose evaluate --compare {quoted(run)} …")
        compare(compare_arms, options or ComparisonOptions(), json)
        return
    if run is None or options not in (None, ComparisonOptions()):
        reason = "no run is named" if run is None else "these options belong to --compare"
        raise UsageError(reason, "recompose evaluate RUN, or recompose evaluate --compare A B")
    opened = Run.open(run)
    if on == "tasks" and not opened.config.training.rollouts and not rollout_tokens(opened):
        print(
            f"{run} learns from sessions alone, and this measures tasks of {opened.config.environment.name} instead; "
            f"next: recompose evaluate {quoted(run)} --on sessions",
            file=sys.stderr,
        )
    if probe_hints:
        probe(opened, sites, json)
        return
    if on == "sessions":
        evaluate_sessions(opened, json)
        return
    from composer_replication.evaluation.summary import conclude

    with working_on(opened) as progress:
        run_stage(opened, "evaluation", progress)
    show_result(conclude(opened), json)


def probe(run: Run, sites: int, as_json: bool) -> None:
    """What hints change for the starting policy of RUN at its own errors, by kind; the tries go to RUN/evaluation."""
    quiet_libraries()
    from composer_replication.training.libraries import load_libraries

    load_libraries()
    import torch

    from composer_replication.evaluation.probe import gaps, kinds_without_use, probe_hints

    if not run.stage("policy").is_done:
        raise UsageError(f"{run.path} has no starting policy", f"recompose train {quoted(run.path)}")
    policy = load_model(run, str(model_folder(run)))
    device = policy.model.device.type
    half = torch.autocast(device, torch.bfloat16, enabled=run.config.hardware.autocasts(device == "cuda"))
    with half, open_environment(run.config) as environment:
        progress = open_progress()
        progress.stage("probe", "find error turns in fresh rollouts")
        try:
            tried = probe_hints(policy, run.config, environment, sites, progress=progress)
        finally:
            progress.close()
    write_records(run.path / TRIED, tried)
    found, off = gaps(tried), kinds_without_use(gaps(tried))
    if as_json:
        print(json_module.dumps({"gaps": [one.model_dump() for one in found], "sdpo_kinds_off": off}))
    else:
        _show(found, off)


def _show(found: Sequence[KindGap], off: Sequence[str]) -> None:
    print(f"{'right, by kind of error':<24} {'sites':>5}  {'as it was':>9}  {'hint':>5}  {'sham':>5}  gap, 95 %")
    for one in found:
        right, gap = one.right, one.gap
        print(
            f"{one.kind:<24} {one.sites:>5}  {right['plain'].mean:>9.2f}  {right['hint'].mean:>5.2f}  "
            f"{right['sham'].mean:>5.2f}  {gap.mean:+.2f} [{gap.lo:+.2f}, {gap.hi:+.2f}]"
        )
    print(f"kinds_off = {json_module.dumps(list(off))}  # of the channel sdpo")


def evaluate_sessions(run: Run, as_json: bool) -> None:
    from composer_replication.evaluation.compare import PHASES
    from composer_replication.evaluation.sessions import TurnMeasure, changes, conclusion

    with working_on(run) as progress:
        run_stage(run, "sessions", progress)
    stage = run.stage("sessions")
    found, counts = stage.read(TurnMeasure), stage.counts
    rows, missing = changes(found)
    wrong = {phase: dict(Counter(one.reason for one in found if one.reason and one.phase == phase)) for phase in PHASES}
    if as_json:
        result = {"sessions": counts["sessions"], "skipped": counts["skipped"], "missing": missing, "wrong": wrong}
        told = [{**row.model_dump(), "verdict": row.verdict} for row in rows]
        print(json_module.dumps({**result, "changes": told, "conclusion": conclusion(rows)}))
        return
    console = Console(highlight=False)
    console.print(f"{counts['sessions']} sessions that training did not see:")
    table = Table("", "before", "after", "difference [95 %]", "turns", "sessions")
    for row in rows:
        change, is_too_few = row.difference, row.verdict == "too few to tell"
        table.add_row(
            MEANING[row.measure],
            f"{row.before.mean:.3f}",
            f"{row.after.mean:.3f}",
            row.verdict if is_too_few else f"{change.mean:+.3g} [{change.lo:+.3g}, {change.hi:+.3g}]",
            str(row.turns),
            str(change.n),
        )
    console.print(table)
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
