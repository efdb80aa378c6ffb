"""One self-contained page about held-out sessions: the rows, what to know about them, and every turn."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

from jinja2 import Environment, StrictUndefined

from composer_replication.errors import quoted

from .sessions import Change, Measure, TurnMeasure, conclusion


class BothSides(NamedTuple):
    """Of one turn, and the command that shows what the actor did there."""

    measure: Measure
    before: str
    after: str
    command: str


def render_sessions(
    run: Path,
    held_out: int,
    rows: Sequence[Change],
    meaning: Mapping[Measure, str],
    remarks: Sequence[str],
    found: Sequence[TurnMeasure],
) -> str:
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    text = files("composer_replication.evaluation").joinpath("sessions.html.jinja").read_text(encoding="utf-8")
    return environment.from_string(text).render(
        run=run,
        held_out=held_out,
        conclusion=conclusion(rows),
        rows=rows,
        meaning=meaning,
        remarks=remarks,
        turns=list(_turns(run, found)),
    )


def _turns(run: Path, found: Sequence[TurnMeasure]) -> Iterator[BothSides]:
    both: dict[tuple[Measure, str, int], dict[str, str]] = {}
    for one in found:
        said = one.reason or "right" if one.measure == "rewritten" else f"{one.value:.3f}"
        both.setdefault((one.measure, one.trace_id, one.turn), {})[one.phase] = said
    for (measure, trace_id, turn), said in both.items():
        command = f"recompose show {quoted(run)} {trace_id}:{turn}"
        yield BothSides(measure, said["before"], said["after"], command)
