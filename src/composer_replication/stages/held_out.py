"""Which sessions of a run its training leaves alone, so that they can be measured on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from composer_replication.errors import UsageError
from composer_replication.evaluation.held_out import held_out, opening_of
from composer_replication.records import Trace
from composer_replication.runs import Run

from .ingestion import rollout_tokens


def held_out_ids(run: Run, sessions: Iterable[Trace]) -> set[str]:
    openings = {trace.trace_id: opening_of(trace) for trace in sessions}
    return held_out(openings, run.config.evaluation.held_out_sessions)


def held_out_of(run: Run) -> set[str]:
    return held_out_ids(run, sessions_of(run)) if run.stage("ingestion").is_done else set()


def refuse_none_held_out(run: Run) -> set[str]:
    """Those that are held out."""
    if not (known := held_out_of(run)):
        share = run.config.evaluation.held_out_sessions
        raise UsageError(
            f"{run.path}: of {sum(1 for _ in sessions_of(run))} sessions none is held out at a share of {share:g}",
            "start a run with more sessions, or with a larger evaluation.held_out_sessions",
        )
    return known


def sessions_of(run: Run) -> Iterator[Trace]:
    """All but the policy's own rollouts."""
    own = {row.trace_id for row in rollout_tokens(run)}
    return (trace for trace in run.stage("ingestion").stream(Trace) if trace.trace_id not in own)
