"""`RUN/sessions`: held-out sessions under the policy before and after training. Optional: `evaluate --on sessions`."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, NamedTuple

from composer_replication.environments.opening import open_environment
from composer_replication.environments.protocol import Environment
from composer_replication.errors import UsageError
from composer_replication.progress import Progress, repeating
from composer_replication.records import Trace, content_id
from composer_replication.runs import Run

from .held_out import held_out_of, sessions_of
from .parts import Parts, measured_with
from .policy import load_own
from .session_turns import TurnToMeasure, states_without_tools, turns_to_measure

if TYPE_CHECKING:
    from composer_replication.evaluation.compare import Phase
    from composer_replication.evaluation.session_reading import Judge, SessionReader
    from composer_replication.evaluation.sessions import TurnMeasure

MODELS: dict[Phase, str] = {"before": "policy", "after": "training"}
ORDER: tuple[tuple[Phase, bool], ...] = (("before", False), ("after", False), ("after", True), ("before", True))
"""And whether turns are written. Those that are read are quick and say something alone, so they come first. Two models
of a real size would not fit into memory at once: the second one stays for its other turns, the first comes again."""


class TurnStep(NamedTuple):
    """A turn under one of the two policies."""

    phase: Phase
    turn: TurnToMeasure
    key: str
    what: str


def measure(run: Run, progress: Progress) -> None:
    from composer_replication.evaluation.model_card import write_card
    from composer_replication.evaluation.session_reading import SessionReader
    from composer_replication.evaluation.sessions import TurnMeasure
    from composer_replication.training.libraries import load_libraries

    load_libraries()
    from composer_replication.training.models.loading import device_type
    from composer_replication.training.running import SECONDS_OF_SILENCE

    started, config, stage = time.monotonic(), run.config, run.stage("sessions")
    most, traces = config.training.max_turn_tokens, held_out_sessions(run)
    found = turns_to_measure(run, None, traces, device_type() == "cuda")
    assert found is not None, "the folder of the policy has a tokenizer and a config"
    chosen, turns = found
    kinds, fitting = Counter(one.measure for one in chosen), Counter(one.shown.turn.measure for one in turns)
    steps = _steps(run, turns)
    read = sum(not step.turn.shown.is_written for step in steps)
    with ExitStack() as stack:
        judge = _judge(stack.enter_context(open_environment(config)) if any(t.task_id for t in traces) else None)
        parts = stack.enter_context(Parts(stage, TurnMeasure, [step.key for step in steps], "turns", progress))
        progress.note(what_fits(kinds, fitting, config.training.max_tokens))
        place = MeasuringPlace(steps, parts, most, progress)
        stack.enter_context(repeating(place.tell, SECONDS_OF_SILENCE))
        try:
            for number, step in enumerate(steps):
                if number == read:
                    _tell_rows(parts.records, progress)
                if parts.take(step.key) is not None:
                    continue
                place.now = number
                if place.reader is None or place.reader.phase != step.phase:
                    place.reader = None
                    place.reader = SessionReader(load_own(run, MODELS[step.phase]), step.phase, most, judge)
                began = time.monotonic()
                parts.add(step.key, [place.reader.measure(step.turn.shown)])
                place.done(time.monotonic() - began)
        except KeyboardInterrupt:
            _tell_rows(parts.records, progress)
            raise
    counts = {
        "sessions": len(traces),
        "turns": len(chosen),
        "skipped": dict(kinds - fitting),
        "tools_not_shown": states_without_tools(run, traces),
    }
    stage.seal(parts.close(), counts, [run.stage("training"), run.stage("ingestion")], started)
    write_card(run)


def _steps(run: Run, turns: Sequence[TurnToMeasure]) -> list[TurnStep]:
    made_with = {phase: measured_with(run, noun, "ingestion", "sites", "pairs") for phase, noun in MODELS.items()}
    steps: list[TurnStep] = []
    for phase, is_written in ORDER:
        own = [one for one in turns if one.shown.is_written == is_written]
        for number, one in enumerate(own, start=1):
            turn = one.shown.turn
            key = content_id(made_with[phase], phase, turn.measure, turn.trace.trace_id, turn.turn, turn.actions)
            doing = "writing" if is_written else "reading"
            steps.append(TurnStep(phase, one, key, f"{doing} turn {number} of {len(own)}, {phase} training"))
    return steps


class MeasuringPlace:
    """Where a measurement is, and how long the rest of it takes."""

    def __init__(self, steps: Sequence[TurnStep], parts: Parts[TurnMeasure], most: int, progress: Progress) -> None:
        """`most` tokens has a turn that is written."""
        from composer_replication.evaluation.session_reading import TimeLeft

        self._steps, self._parts, self._most, self._progress = steps, parts, most, progress
        self._time_left = TimeLeft()
        self.reader: SessionReader | None = None
        self.now = 0

    def done(self, took_s: float) -> None:
        turn = self._steps[self.now].turn
        self._time_left.add(turn.shown.is_written, turn.foreseen_s, took_s)
        self.now += 1
        self.tell()

    def tell(self) -> None:
        ahead, written = defaultdict[bool, float](float), self.reader.tokens_written if self.reader else 0
        for step in self._steps[self.now :]:
            if not self._parts.is_kept(step.key):
                ahead[step.turn.shown.is_written] += step.turn.foreseen_s
        what = "".join(step.what for step in self._steps[self.now : self.now + 1])
        if written:
            ahead[True] -= self._steps[self.now].turn.foreseen_s * written / self._most
            what += f": {written} of {self._most} tokens"
        self._progress.step(self.now, len(self._steps), what, self._time_left.left(ahead))


def _tell_rows(measured: Sequence[TurnMeasure], progress: Progress) -> None:
    from composer_replication.evaluation.sessions import changes

    for row in changes(measured)[0]:
        progress.note(f"so far: {row.sentence}")


def what_fits(kinds: Counter[str], fitting: Counter[str], max_tokens: int) -> str:
    """What will be measured, in a line."""
    each = ", ".join(f"{fitting[kind]} of {number} {kind}" for kind, number in kinds.items())
    number, chosen = fitting.total(), kinds.total()
    told = f"sessions: {number} of {chosen} turns fit and are measured, before and after training: {each}"
    if 2 * number >= chosen:
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
