"""What a measurement on held-out sessions found, for people: lines for a terminal, and a page with every turn.

Reads `RUN/sessions`; writes `RUN/sessions.html`, which needs nothing from outside.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, StrictUndefined

from composer_replication.config import Config
from composer_replication.errors import quoted
from composer_replication.runs import Run, write_atomically

from .compare import PHASES
from .session_advice import doubt, next_step, what_is_measured
from .sessions import Change, Measure, TurnMeasure, changes, conclusion, counted

PAGE = "sessions.html"
MEANING: dict[Measure, str] = {
    "good turns": "log-probability per token of good turns (higher is better)",
    "corrections": "of the actor's correction, over its error (higher is better)",
    "preferred": "of what teachers prefer, over what they reject (higher is better)",
    "rewritten": "share of error turns that are wrong when written again (lower is better)",
}


class SessionsReport(NamedTuple):
    place: Path
    config: Config
    counts: Mapping[str, Any]
    found: Sequence[TurnMeasure]
    rows: Sequence[Change]
    missing: Mapping[Measure, str]
    wrong: Mapping[str, Mapping[str, int]]
    """Reasons before and after."""

    @property
    def title(self) -> str:
        return f"{counted(self.counts['sessions'], 'session')} held out; each row counts those that it has turns of"

    @property
    def next(self) -> str:
        return next_step(self.place, self.config, self.rows, self.counts.get("kinds", {}))

    @property
    def conclusion(self) -> str:
        verdicts = ", ".join(f"{row.measure} {row.verdict}{_doubtful(row)} ({row.size})" for row in self.rows)
        return (
            f"{conclusion(self.rows)} on sessions that training did not see ({verdicts or 'nothing measured'}); "
            f"every turn lies in {self.place / PAGE}."
        )

    def cells(self, row: Change) -> tuple[str, ...]:
        return (
            MEANING[row.measure] + _doubtful(row),
            f"{row.before.mean:.3f}",
            f"{row.after.mean:.3f}",
            row.difference.told("+.3g"),
            str(row.turns),
            str(row.difference.n),
        )

    def remarks(self) -> Iterator[str]:
        from composer_replication.training.planning.doubts import no_tools_shown

        if unseen := self.counts.get("tools_not_shown", 0):
            yield f"Doubtful: {no_tools_shown(unseen)}."
        yield from (f"Doubtful: {doubt(row, self.place, self.config)}" for row in self.rows if row.is_doubtful)
        for phase, reasons in self.wrong.items():
            if reasons:
                yield f"Wrong {phase}: " + ", ".join(f"{number} {reason}" for reason, number in reasons.items())
        yield from (f"Not measured: {measure}, {reason}" for measure, reason in self.missing.items())
        if kinds := self.counts.get("kinds"):
            yield f"Measured: {what_is_measured(kinds, self.config.training.max_tokens)}"

    def turns(self) -> Iterator[tuple[str, ...]]:
        """Both sides of each, and the command that shows what the actor did there."""
        by_turn: dict[tuple[str, str, int], dict[str, str]] = {}
        for one in self.found:
            said = f"{one.value:.3f}" if one.measure != "rewritten" else one.reason or "right"
            by_turn.setdefault((one.measure, one.trace_id, one.turn), {})[one.phase] = said
        for (measure, trace_id, turn), said in by_turn.items():
            command = f"recompose show {quoted(self.place)} {trace_id}:{turn}"
            yield measure, *(said.get(phase, "") for phase in PHASES), command


def read_sessions(run: Run) -> SessionsReport:
    found = run.stage("sessions").read(TurnMeasure)
    wrong = {phase: dict(Counter(one.reason for one in found if one.reason and one.phase == phase)) for phase in PHASES}
    return SessionsReport(run.path, run.config, run.stage("sessions").counts, found, *changes(found), wrong)


def write_page(run: Run) -> None:
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    text = files("composer_replication.evaluation").joinpath("sessions.html.jinja").read_text(encoding="utf-8")
    page = environment.from_string(text).render(report=read_sessions(run), run=run)
    write_atomically(run.path / PAGE, page)


def _doubtful(row: Change) -> str:
    return ", doubtful" * row.is_doubtful
