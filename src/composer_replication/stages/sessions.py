"""`RUN/sessions`: held-out sessions under the policy before and after training. Optional: `evaluate --on sessions`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from composer_replication.environments.opening import open_environment
from composer_replication.environments.protocol import Environment
from composer_replication.errors import UsageError
from composer_replication.progress import Progress, repeating
from composer_replication.records import Trace
from composer_replication.runs import Run

from .held_out import refuse_none_held_out
from .parts import Parts
from .policy import load_own
from .session_turns import MODELS, Pass, both_fit, passes_of, states_without_tools, turns_to_measure

if TYPE_CHECKING:
    from composer_replication.evaluation.compare import Phase
    from composer_replication.evaluation.session_reading import Judge, SessionReader
    from composer_replication.evaluation.sessions import TurnMeasure


def measure(run: Run, progress: Progress) -> None:
    from composer_replication.evaluation.model_card import write_card
    from composer_replication.evaluation.session_advice import told_too_few, what_is_measured
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
    turns, kinds = found
    passes, is_both = passes_of(run, turns), both_fit(run)
    first_written = sum(not one.turn.shown.is_written for one in passes)
    with ExitStack() as stack:
        judge = _judge(stack.enter_context(open_environment(config)) if any(t.task_id for t in traces) else None)
        parts = stack.enter_context(Parts(stage, TurnMeasure, [one.key for one in passes], "passes", progress))
        progress.note(f"sessions: {what_is_measured(kinds, config.training.max_tokens)}")
        if few := told_too_few(run.path, config, kinds):
            progress.note(few)
        place = MeasuringPlace(passes, parts, most, progress)
        stack.enter_context(repeating(place.tell, SECONDS_OF_SILENCE))
        readers: dict[Phase, SessionReader] = {}
        try:
            for number, one in enumerate(passes):
                place.now = number
                if number == first_written:
                    _tell_rows(parts.records, passes, progress)
                if parts.take(one.key) is not None:
                    continue
                if one.phase not in readers:
                    if not is_both:
                        place.reader = None
                        readers.clear()
                    readers[one.phase] = SessionReader(load_own(run, MODELS[one.phase]), one.phase, most, judge)
                place.reader = readers[one.phase]
                began = time.monotonic()
                parts.add(one.key, [place.reader.measure(one.turn.shown)])
                place.done(time.monotonic() - began)
        except KeyboardInterrupt:
            for later in passes[place.now :]:
                parts.take(later.key)
            _tell_rows(parts.records, passes, progress)
            raise
    counts = {"sessions": len(traces), "turns": len(turns), "kinds": kinds}
    counts["tools_not_shown"] = states_without_tools(run, traces)
    stage.seal(parts.close(), counts, [run.stage("training"), run.stage("ingestion")], started)
    write_card(run)


class MeasuringPlace:
    """Where a measurement is, and how long the rest of it takes."""

    def __init__(self, passes: Sequence[Pass], parts: Parts[TurnMeasure], most: int, progress: Progress) -> None:
        """`most` tokens has a turn that is written."""
        from composer_replication.evaluation.session_reading import TimeLeft
        from composer_replication.training.models.loading import device_type
        from composer_replication.training.planning.load import load_here

        self._passes, self._parts, self._most, self._progress = passes, parts, most, progress
        load = None if device_type() == "cuda" else load_here()
        self._time_left = TimeLeft(self._ahead(), load["times_as_long"] if load else 1.0)
        self.reader: SessionReader | None = None
        self.now = 0

    def done(self, took_s: float) -> None:
        turn = self._passes[self.now].turn
        self._time_left.add(turn.shown.is_written, turn.foreseen_s, took_s)
        self.now += 1
        self.tell()

    def tell(self) -> None:
        ahead, written = self._ahead(), self.reader.tokens_written if self.reader else 0
        what = "".join(one.what for one in self._passes[self.now : self.now + 1])
        if written:
            ahead[True] -= self._passes[self.now].turn.foreseen_s * written / self._most
            what += f": {written} of {self._most} tokens"
        self._progress.step(len(self._parts.kept), len(self._passes), what, self._time_left.left(ahead))

    def _ahead(self) -> dict[bool, float]:
        """Foreseen seconds of what is not kept, by whether it is written."""
        ahead = {False: 0.0, True: 0.0}
        for one in self._passes:
            if one.key not in self._parts.kept:
                ahead[one.turn.shown.is_written] += one.turn.foreseen_s
        return ahead


def _tell_rows(measured: Sequence[TurnMeasure], passes: Sequence[Pass], progress: Progress) -> None:
    from composer_replication.evaluation.sessions import FEWEST_SESSIONS, changes

    rows, _ = changes(measured)
    for row in rows:
        progress.note(f"so far: {row.sentence}")
    if not rows and passes:
        first = next(number for number, one in enumerate(passes, 1) if one.phase != passes[0].phase)
        progress.note(
            f"so far no row: one needs turns of one kind of {FEWEST_SESSIONS} sessions under both models"
            + f", and the second model begins at pass {first} of {len(passes)}" * (len(measured) < first)
        )


def held_out_sessions(run: Run) -> list[Trace]:
    """Of the run's own sessions those that its training did not see."""
    counts = run.stage("training").require()["counts"]
    known = refuse_none_held_out(run)
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
