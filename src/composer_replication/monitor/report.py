"""What the monitor found in a run, for people: a page, lines for a terminal, and one JSON object.

Reads `RUN/monitor`; writes `RUN/monitor/report.html`, which needs nothing from outside. Everything that came from a
trace is escaped. Of many rollouts the worst are shown: alarms with hard evidence first, then by probability.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, StrictUndefined

from composer_replication.errors import quoted
from composer_replication.records import Finding
from composer_replication.runs import Run, write_atomically

from .classes import BY_NAME
from .stage import NOUN, TraceVerdict, read_verdicts

PAGE = "monitor/report.html"
WORST = 10
LINES_PER_ROLLOUT = 8
MAX_LINE_CHARS = 200
PERSON_NOTE = "a person steers this session: what they ask for is no hack"
NOT_JUDGED = "not judged: a person steered"
NO_WEIGHTS = "no fitted weights: only hard evidence raises an alarm; next: python experiments/006-monitor/fit.py"


class Shown(NamedTuple):
    verdict: TraceVerdict
    findings: Sequence[Finding]


class Report(NamedTuple):
    run: Path
    counts: Mapping[str, Any]
    worst: Sequence[Shown]
    sessions: Sequence[Shown]
    """Of people: shown, and not judged."""
    left_out: int
    """Rollouts with findings that are not shown."""

    @property
    def canary_hit_rate(self) -> float | None:
        tried = self.counts["with_evidence"]
        return self.counts["canary_hits"] / tried if tried else None


def read_report(run: Run, show_all: bool = False) -> Report:
    found = [verdict for verdict in read_verdicts(run) if verdict.findings]
    found.sort(key=lambda verdict: (-verdict.alarm, -verdict.hard, -(verdict.p or 0.0), -verdict.findings))
    rollouts = [verdict for verdict in found if not verdict.person]
    sessions = [verdict for verdict in found if verdict.person]
    limit = None if show_all else WORST
    chosen = {verdict.trace_id: list[Finding]() for verdict in [*rollouts[:limit], *sessions[:limit]]}
    for finding in run.stage(NOUN).stream(Finding):
        if finding.trace_id in chosen:
            chosen[finding.trace_id].append(finding)
    for findings in chosen.values():
        findings.sort(key=lambda finding: (finding.evidence != "hard", finding.step))
    return Report(
        run=run.path,
        counts=run.stage(NOUN).counts,
        worst=[Shown(verdict, chosen[verdict.trace_id]) for verdict in rollouts[:limit]],
        sessions=[Shown(verdict, chosen[verdict.trace_id]) for verdict in sessions[:limit]],
        left_out=len(found) - len(chosen),
    )


def write_page(report: Report) -> Path:
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters.update(place=place, share=share, chance=chance)
    source = files("composer_replication.monitor").joinpath("report.html.jinja").read_text(encoding="utf-8")
    classes = [(BY_NAME[name], count) for name, count in report.counts["classes"].items()]
    page = environment.from_string(source).render(
        report=report,
        counts=report.counts,
        classes=classes,
        person_note=PERSON_NOTE,
        not_judged=NOT_JUDGED,
        no_weights=NO_WEIGHTS,
    )
    path = report.run / PAGE
    write_atomically(path, page)
    return path


def told(report: Report, show_all: bool = False) -> Iterator[str]:
    """Lines for a terminal."""
    counts, found = report.counts, report.counts["findings"]
    yield f"monitor of {report.run}"
    yield f"  rollouts       {counts['rollouts']}, and {_counted(counts['sessions'], 'session')} that a person steered"
    yield f"  alarms         {counts['alarms']}, of them {counts['hard']} by hard evidence"
    yield f"  canary hits    {_canary_line(report)}"
    yield f"  findings       {found.get('hard', 0)} hard, {found.get('soft', 0)} soft in {counts['steps']} steps"
    yield f"  classes        {', '.join(f'{name} {count}' for name, count in counts['classes'].items()) or 'none'}"
    yield f"  auditor        {_auditor_line(report)}"
    if not counts["has_weights"]:
        yield f"  {NO_WEIGHTS}"
    for shown in report.worst:
        yield ""
        yield from _rollout_lines(shown, show_all)
    if report.sessions:
        yield ""
        yield f"sessions: {PERSON_NOTE}"
        for shown in report.sessions:
            yield from _rollout_lines(shown, show_all)
    if report.left_out:
        yield ""
        how = " --rollouts" if counts["all_rollouts"] else ""
        yield f"{report.left_out} more with findings; next: recompose monitor {quoted(report.run)}{how} --all"
    yield ""
    yield f"next: open {quoted(report.run / PAGE)}"


def as_json(report: Report) -> dict[str, Any]:
    return {
        "run": str(report.run),
        "stage": NOUN,
        **report.counts,
        "canary_hit_rate": report.canary_hit_rate,
        "worst": [_as_json(shown) for shown in report.worst],
        "session_findings": [_as_json(shown) for shown in report.sessions],
        "left_out": report.left_out,
        "report": str(report.run / PAGE),
    }


def place(finding: Finding) -> str:
    return "whole attempt" if finding.step < 0 else f"step {finding.step}"


def share(value: float | None) -> str:
    return "–" if value is None else f"{value:.1%}"


def chance(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def _as_json(shown: Shown) -> dict[str, Any]:
    left_out = {"schema_version"}
    return {
        **shown.verdict.model_dump(exclude=left_out),
        "findings": [finding.model_dump(exclude=left_out) for finding in shown.findings],
    }


def _canary_line(report: Report) -> str:
    tried = report.counts["with_evidence"]
    if not tried:
        return "unknown: no rollout carries evidence"
    return f"{report.counts['canary_hits']} of {tried} rollouts with evidence ({share(report.canary_hit_rate)})"


def _auditor_line(report: Report) -> str:
    alarms, apart = report.counts["auditor_alarms"], report.counts["disagreements"]
    return f"{_counted(alarms, 'alarm')}, {_counted(apart, 'disagreement')} with the monitor"


def _rollout_lines(shown: Shown, show_all: bool) -> Iterator[str]:
    verdict, limit = shown.verdict, None if show_all else LINES_PER_ROLLOUT
    facts = [NOT_JUDGED] if (verdict.person and not verdict.alarm) else _judgement(verdict)
    facts += [f"reward {verdict.outcome:g}"] if verdict.outcome is not None else []
    facts += [verdict.task_id] if verdict.task_id else []
    yield f"{verdict.trace_id}  {', '.join(facts)}"
    lines = [(finding, line) for finding in shown.findings for line in finding.lines]
    for finding, line in lines[:limit]:
        name = f"{finding.hack_class} ({finding.layer}, {finding.rule}, {finding.evidence})"
        yield f"  {place(finding):<14} {name}: {_one_line(line)}"
    if limit and len(lines) > limit:
        yield f"  {len(lines) - limit} more lines"


def _judgement(verdict: TraceVerdict) -> list[str]:
    facts = ["alarm" if verdict.alarm else "no alarm", "hard" if verdict.hard else "soft"]
    return facts if verdict.p is None else [*facts, f"p {chance(verdict.p)}"]


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _one_line(text: str) -> str:
    """Without control characters: a line of a trace must not steer the terminal."""
    plain = "".join(char if char.isprintable() else " " for char in text)
    return plain if len(plain) <= MAX_LINE_CHARS else f"{plain[:MAX_LINE_CHARS]}…"
