"""`recompose evaluate RUN`, also `--on sessions` or `--probe`, and `recompose evaluate --compare A [B …]`"""

from __future__ import annotations

import sys
from typing import Annotated, Literal

from cyclopts import Parameter, validators

from composer_replication.errors import UsageError, quoted
from composer_replication.pipeline import run_stage
from composer_replication.runs import Run
from composer_replication.stages.ingestion import rollout_tokens

from .common import Json, RunFolder, refuse_missing_run, working_on
from .compare import ComparisonOptions, compare
from .probe import probe
from .result import show_result
from .sessions import evaluate_sessions, foresee_sessions


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
            help="Arms, PATH or NAME=PATH: runs, JSONL(.zst) of outcomes, folders of seeds. One: both its phases.",
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
    checkpoint: Annotated[
        str | None,
        Parameter(help="Of a training that has not ended: latest, or a step. Goes into RUN-checkpoint-STEP."),
    ] = None,
    sites: Annotated[
        int, Parameter(help="Error turns that --probe looks at.", validator=validators.Number(gte=1))
    ] = 256,
    dry_run: Annotated[bool, Parameter(negative="", help="With --on sessions: tell its time and its reach.")] = False,
    json: Json = False,
) -> None:
    """Compare the policy of RUN before and after training on held-out tasks, and write RUN/report.html.

    With --on sessions, compare both on sessions that training did not see, and write RUN/sessions.html instead: how
    likely they find the actor's turns, and what they write at its errors.
    With --checkpoint, do either for a training that was stopped, or that still runs; it can go on afterwards.
    With --probe, write error turns again with a hint, without and with a sham: does channel 2 have something to teach?
    With --compare, compare the outcomes of runs that are there, or of one run before and after: nothing is run.
    """
    if compare_arms is not None:
        if run is not None:
            raise UsageError(f"{run} stands before --compare", f"recompose evaluate --compare {quoted(run)} …")
        compare(compare_arms, options or ComparisonOptions(), json)
        return
    if run is None or options not in (None, ComparisonOptions()):
        reason = "no run is named" if run is None else "these options belong to --compare"
        raise UsageError(reason, "recompose evaluate RUN, or recompose evaluate --compare A B")
    refuse_missing_run(run)
    if dry_run and on != "sessions":
        raise UsageError("--dry-run is for --on sessions", f"recompose evaluate {quoted(run)} --on sessions --dry-run")
    opened = Run.open(run)
    if on == "tasks" and not opened.config.training.rollouts and not rollout_tokens(opened):
        print(
            f"{run} learns from sessions alone, and this measures tasks of {opened.config.environment.name} instead; "
            f"next: recompose evaluate {quoted(run)} --on sessions",
            file=sys.stderr,
        )
    if probe_hints:
        if checkpoint:
            raise UsageError("--probe looks at the starting policy", f"recompose evaluate {quoted(run)} --probe")
        probe(opened, sites, json)
        return
    if checkpoint:
        opened = _at_checkpoint(opened, checkpoint)
    elif not dry_run and not opened.stage("training").is_done and (kept := max(opened.checkpoints(), default=0)):
        raise UsageError(
            f"{run} has no finished training stage; {kept} of {opened.config.training.steps} steps are kept",
            f"recompose train {quoted(run)}, or recompose evaluate {quoted(run)} --on {on} --checkpoint latest",
        )
    if on == "sessions":
        (foresee_sessions if dry_run else evaluate_sessions)(opened, json)
        return
    from composer_replication.evaluation.summary import conclude

    with working_on(opened) as progress:
        run_stage(opened, "evaluation", progress)
    show_result(conclude(opened), json)


def _at_checkpoint(run: Run, wanted: str) -> Run:
    """A run beside it whose training ends there."""
    from composer_replication.stages.forking import fork_at

    named = {str(step): path for step, path in run.checkpoints().items()}
    if named:
        named["latest"] = [*named.values()][-1]
    if wanted not in named:
        then = f"choose from {', '.join(named)}" if named else f"recompose show {quoted(run.path)}"
        raise UsageError(f"{run.path} has no checkpoint {wanted}", then)
    ended = fork_at(run, named[wanted])
    with working_on(ended) as progress:
        run_stage(ended, "training", progress, checkpoint=named[wanted], anyway=True)
    return ended
