"""`RUN/pairs`: what the teachers agree on, over what the actor or the policy did."""

from __future__ import annotations

import time
from collections.abc import Iterable

from composer_replication.environments.opening import open_environment
from composer_replication.environments.protocol import Environment
from composer_replication.pairs import calibrate, extract_dpo_pairs
from composer_replication.pairs.build import VERDICTS, StateVerdict
from composer_replication.pairs.calibrate import Oracle
from composer_replication.progress import Progress
from composer_replication.records import ErrorSite, PreferencePair, TeacherReply, Trace, TraceState
from composer_replication.runs import Run, write_records
from composer_replication.sites.marking import StoredTraces, failed_calls

from .samples import stored_samples


def pair(run: Run, progress: Progress) -> None:
    started, inputs = time.monotonic(), [run.stage(noun) for noun in ("ingestion", "sites", "replay")]
    config, samples, replies = run.config.pairs, stored_samples(run), inputs[2].read(TeacherReply)
    traces = asked_traces(run, replies)
    known = {trace.trace_id for trace in traces}
    sites = [site for site in inputs[1].stream(ErrorSite) if site.trace_id in known]
    verdicts: list[StateVerdict] = []
    with open_environment(run.config) as environment:
        remember(environment, traces)
        found = extract_dpo_pairs(
            traces,
            replies,
            run.config.model.name,
            rule=config.rule,
            critical=config.critical,
            free_text=config.free_text,
            equivalent=environment.equivalent if config.execution else None,
            samples=samples,
            own_family=inputs[2].counts.get("own_family", False),
            one_teacher=inputs[2].counts.get("one_teacher", False),
            kinds={site.state_id: site.error_kind for site in sites},
            failed_calls=failed_calls(sites),
            on_verdict=verdicts.append,
        )
        if config.calibrate:
            found = calibrate(found.pairs, traces, oracle(environment), config.min_precision).apply(found)
    made_with = [*inputs, run.stage("samples")] if samples else inputs
    counts = {"pairs": len(found.pairs), "verdicts": dict(found.verdicts)}
    stage, kept = run.stage("pairs"), {pair.state_id for pair in found.pairs}
    ended = (one if one.verdict != "paired" or one.state_id in kept else _imprecise(one) for one in verdicts)
    stage.finish(
        found.pairs, counts, made_with, started, beside={VERDICTS: write_records(stage.path / VERDICTS, ended)}
    )


def _imprecise(verdict: StateVerdict) -> StateVerdict:
    """Calibration took its pair."""
    return verdict.model_copy(update={"verdict": "low_precision"})


def asked_traces(run: Run, asked: Iterable[TeacherReply | PreferencePair]) -> list[Trace]:
    """The traces of replies or pairs, each up to its last turn that was asked about."""
    last: dict[str, int] = {}
    for one in asked:
        last[one.trace_id] = max(one.turn, last.get(one.trace_id, 0))
    return list(StoredTraces(run.stage("ingestion"), run.stage("sites")).chosen(last))


def remember(environment: Environment, traces: Iterable[Trace]) -> None:
    """Have the environment know the tasks of its own traces; sessions of others may carry task ids of their own."""
    for trace in traces:
        if trace.source.agent == environment.name and trace.task_id:
            environment.task(trace.task_id)


def oracle(environment: Environment) -> Oracle:
    """Whether an action is the right one, by the environment; None where it cannot know."""

    def is_right(state: TraceState, action: str) -> bool | None:
        judged = environment.judge(state, action)
        return judged.right if judged else None

    return is_right
