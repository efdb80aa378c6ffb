"""Which sessions of a run its training leaves alone, so that they can be measured on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from composer_replication.records import Trace, content_id
from composer_replication.runs import Run

from .ingestion import rollout_tokens

FEWEST = 5


def held_out_ids(run: Run, sessions: Iterable[Trace]) -> set[str]:
    """By how a session opens: one that opens like another is often its continuation. Of fewer than five that open
    differently none is held out."""
    openings = {trace.trace_id: content_id(_opening(trace)) for trace in sessions}
    if len(set(openings.values())) < FEWEST:
        return set()
    share = run.config.evaluation.held_out_sessions
    return {trace_id for trace_id, opening in openings.items() if int(opening, 16) / 16 ** len(opening) < share}


def held_out_of(run: Run) -> set[str]:
    return held_out_ids(run, sessions_of(run)) if run.stage("ingestion").is_done else set()


def sessions_of(run: Run) -> Iterator[Trace]:
    """All but the policy's own rollouts."""
    own = {row.trace_id for row in rollout_tokens(run)}
    return (trace for trace in run.stage("ingestion").stream(Trace) if trace.trace_id not in own)


def _opening(trace: Trace) -> str:
    return next((message["content"] for message in trace.messages if message["role"] == "user"), trace.trace_id)
