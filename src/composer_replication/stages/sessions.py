"""`RUN/sessions`: held-out sessions under the policy before and after training. Optional: `evaluate --on sessions`."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from itertools import compress
from typing import TYPE_CHECKING

from composer_replication.environments.opening import open_environment
from composer_replication.environments.protocol import Environment
from composer_replication.errors import UsageError
from composer_replication.progress import Progress
from composer_replication.records import ErrorSite, PreferencePair, Trace, content_id
from composer_replication.runs import Run
from composer_replication.sites.marking import failed_calls

from .held_out import held_out_of, sessions_of
from .parts import Parts, measured_with
from .policy import load_own, model_folder, policy_room
from .training import read_done

if TYPE_CHECKING:
    from composer_replication.evaluation.session_reading import Judge

MODELS = {"before": "policy", "after": "training"}


def measure(run: Run, progress: Progress) -> None:
    from composer_replication.evaluation.compare import PHASES, Phase
    from composer_replication.evaluation.model_card import write_card
    from composer_replication.evaluation.session_reading import SessionReader, TimeLeft, choose_turns
    from composer_replication.training.libraries import load_libraries

    load_libraries()
    from composer_replication.training.stored.sessions import RenderedSessions

    started, config, stage = time.monotonic(), run.config, run.stage("sessions")
    traces = held_out_sessions(run)
    known = {trace.trace_id for trace in traces}
    sites = [site for site in read_done(run, "sites", ErrorSite) if site.trace_id in known]
    pairs = [pair for pair in read_done(run, "pairs", PreferencePair) if pair.trace_id in known]
    turns = choose_turns(traces, sites, pairs, config.evaluation.tasks)
    keys: dict[tuple[Phase, int], str] = {}
    for phase in PHASES:
        made_with = measured_with(run, MODELS[phase], "ingestion", "sites", "pairs")
        keys |= {
            (phase, number): content_id(made_with, phase, number, turn.measure, turn.trace.trace_id, turn.turn)
            for number, turn in enumerate(turns)
        }
    parts = Parts(stage, keys.values(), "turns", progress)
    done, skipped, time_left, left_s = 0, Counter[str](), TimeLeft(), None
    fits: list[bool] = []

    def open_reader(phase: Phase) -> SessionReader:
        policy = load_own(run, MODELS[phase])
        rendered = RenderedSessions(policy, policy_room(run, policy) + config.training.max_turn_tokens)
        return SessionReader(rendered, failed_calls(sites), phase, config.training.max_turn_tokens, judge)

    with ExitStack() as stack:
        judge = _judge(stack.enter_context(open_environment(config)) if any(t.task_id for t in traces) else None)
        for phase in PHASES:
            # One model at a time, and none that has nothing left to do: two of a real size would not fit.
            reader, not_shown = None, Counter[str]()
            for number, turn in enumerate(turns):
                records, done = parts.take(keys[phase, number]), done + 1
                if records is None:
                    reader = reader or open_reader(phase)
                    if not fits:
                        fits = [reader.fits(one) for one in turns]
                        progress.note(what_fits([one.measure for one in turns], fits, config.training.max_tokens))
                    began = time.monotonic()
                    records = parts.add(keys[phase, number], reader.measure(turn))
                    if records:
                        ahead = Counter(turns[n].measure for _, n in list(keys)[done:] if fits[n])
                        left_s = time_left.after(turn.measure, time.monotonic() - began, ahead)
                    progress.step(done, len(keys), f"{phase} training", left_s)
                if not records:
                    not_shown[turn.measure] += 1
            skipped |= not_shown
    counts = {
        "sessions": len(traces),
        "turns": len(turns),
        "skipped": dict(skipped),
        "tools_not_shown": states_without_tools(run, traces),
    }
    stage.seal(parts.close(), counts, [run.stage("training"), run.stage("ingestion")], started)
    write_card(run)


def states_without_tools(run: Run, traces: Iterable[Trace]) -> int:
    """At which the policy does not see the tools that the actor had, because its chat template does not write any."""
    from transformers import AutoTokenizer

    from composer_replication.training.models.tokens import ChatTokens
    from composer_replication.training.planning.lengths import ByTokenizer

    tokens = ChatTokens(AutoTokenizer.from_pretrained(model_folder(run)), None, run.config.model.chat_template_kwargs)
    return 0 if ByTokenizer(tokens).knows_tools else sum(len(trace.turns) for trace in traces if trace.tools)


def what_fits(kinds: Sequence[str], fits: Sequence[bool], max_tokens: int) -> str:
    """What will be measured, in a line. `kinds`, and whether it fits, of each turn."""
    fitting = Counter(compress(kinds, fits))
    each = ", ".join(f"{fitting[kind]} of {number} {kind}" for kind, number in Counter(kinds).items())
    told = f"sessions: {sum(fits)} of {len(fits)} turns fit and are measured, before and after training: {each}"
    if 2 * sum(fits) >= len(fits):
        return told
    return f"{told}. That is few: a run with more than training.max_tokens = {max_tokens:,} would measure more"


def held_out_sessions(run: Run) -> list[Trace]:
    """Of the run's own sessions those that its training did not see."""
    counts = run.stage("training").require()["counts"]
    known, share = held_out_of(run), run.config.evaluation.held_out_sessions
    if not known:
        raise UsageError(
            f"{run.path}: of {sum(1 for _ in sessions_of(run))} sessions none is held out at a share of {share:g}",
            "start a run with more sessions, or with a larger evaluation.held_out_sessions",
        )
    if counts.get("held_out_sessions") != len(known):
        raise UsageError(f"{run.path}: training saw every session", "train again in another run")
    return list(run.stage("ingestion").stream(Trace, only=known))


def _judge(environment: Environment | None) -> Judge:
    def takes(trace: Trace, turn: int, text: str) -> bool | None:
        if environment is None or trace.task_id is None:
            return None
        try:
            environment.task(trace.task_id)
        except LookupError:
            return None
        judged = environment.judge(trace.state(turn), text)
        return None if judged is None else judged.accepted

    return takes
