"""Did training help on one's own sessions? Turns of held-out sessions, read and written again before and after.

    good turns       log-probability per token of what the actor did where nothing went wrong
    corrections      the same of what the actor did right after an error, less that of the error turn
    preferred        the same of what the teachers agreed on, less that of what they rejected
    rewritten        share of error turns that are still wrong when the policy writes them, greedily

Sessions are what is independent, so each counts once, whatever its length: the mean of its turns.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any, Literal, NamedTuple, get_args

from composer_replication.records import (
    ErrorSite,
    JsonObject,
    Message,
    PreferencePair,
    Record,
    StoredRecord,
    Trace,
    canonical_tool_call,
)

from .clusters import clustered_mean
from .compare import PHASES, Phase
from .stats import ALIKE, TOO_FEW, Estimate, NoInterval, Said, no_interval

Measure = Literal["good turns", "corrections", "preferred", "rewritten"]
MEASURES: tuple[Measure, ...] = get_args(Measure)
TURNS_TO_CORRECT = 3
"""How long after an error a call of the same tool still counts as its correction."""
FEWEST_SESSIONS = 2
CUT_OFF = "cut off"
Verdict = Literal["better", "worse", "not clear"] | NoInterval


class TurnMeasure(StoredRecord):
    """One held-out turn under one policy; of a rewritten turn 1 where it is wrong, and why."""

    measure: Measure
    trace_id: str
    turn: int
    phase: Phase
    value: float
    reason: str | None = None


class Change(Record):
    """One measure before and after training; `n` of the estimates counts sessions."""

    measure: Measure
    turns: int
    before: Said
    after: Said
    difference: Said
    wrong: int = 0
    """Turns that were written and are wrong, before and after; `cut_off` of these did not end in time."""
    cut_off: int = 0

    @property
    def is_doubtful(self) -> bool:
        """Where the limit of tokens decided, more than the policy did."""
        return 2 * self.cut_off > self.wrong

    @property
    def verdict(self) -> Verdict:
        change = self.difference
        if change.is_too_few:
            return no_interval(change.n)
        if change.lo <= 0 <= change.hi:
            return "not clear"
        return "better" if (change.lo > 0) == (self.measure != "rewritten") else "worse"

    @property
    def sentence(self) -> str:
        return (
            f"{self.measure} {self.before.mean:.3f} before, {self.after.mean:.3f} after: "
            f"{self.difference.told('+.3g')} ({self.size})"
        )

    @property
    def size(self) -> str:
        return f"{counted(self.turns, 'turn')}, {counted(self.difference.n, 'session')}"


def counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' * (number != 1)}"


class TwoActions(NamedTuple):
    """Two actions at one state, the first the better one."""

    trace: Trace
    turn: int
    better: Message
    worse: Message


def good_turns(traces: Sequence[Trace], sites: Iterable[ErrorSite]) -> Iterator[tuple[Trace, int]]:
    wrong = {(site.trace_id, site.turn) for site in sites}
    for trace in traces:
        for turn, at in enumerate(trace.turns):
            message = trace.messages[at.start]
            says_something = bool(message["content"] or message.get("tool_calls"))
            if says_something and not at.abandoned and (trace.trace_id, turn) not in wrong:
                yield trace, turn


def corrections(traces: Sequence[Trace], sites: Sequence[ErrorSite]) -> Iterator[TwoActions]:
    """Error turns whose tool the actor soon called again, otherwise and without an error."""
    wrong = {(site.trace_id, site.turn) for site in sites}
    by_id = {trace.trace_id: trace for trace in traces}
    for site in _first_of_each_turn(sites):
        trace = by_id.get(site.trace_id)
        if trace is None or site.tool_name is None or site.fault != "policy":
            continue
        worse = _acted(trace, site.turn)
        for turn in range(site.turn + 1, min(len(trace.turns), site.turn + 1 + TURNS_TO_CORRECT)):
            better = _acted(trace, turn)
            names = {call["function"]["name"] for call in better.get("tool_calls", [])}
            if site.tool_name in names and (site.trace_id, turn) not in wrong and _calls(better) != _calls(worse):
                yield TwoActions(trace, site.turn, better, worse)
                break


def preferred(traces: Sequence[Trace], pairs: Iterable[PreferencePair]) -> Iterator[TwoActions]:
    by_id = {trace.trace_id: trace for trace in traces}
    for pair in pairs:
        if pair.trace_id in by_id:
            yield TwoActions(by_id[pair.trace_id], pair.turn, pair.chosen, pair.rejected)


def error_turns(traces: Sequence[Trace], sites: Iterable[ErrorSite]) -> Iterator[tuple[Trace, ErrorSite]]:
    """Turns that a schema can judge: something was called."""
    by_id = {trace.trace_id: trace for trace in traces}
    for site in _first_of_each_turn(sites):
        if site.trace_id in by_id and site.tool_name is not None and site.fault == "policy":
            yield by_id[site.trace_id], site


def what_is_wrong(written: Message, failed: Message, call_id: str | None, tools: Sequence[JsonObject]) -> str | None:
    """Why a turn that is written instead of `failed` would not do, as far as the tools' schemas tell.

    `call_id` is the call of `failed` that went wrong; None where that is not known.
    """
    schemas: dict[str, Any] = {
        tool["function"]["name"]: tool["function"].get("parameters") or {} for tool in tools if "function" in tool
    }
    calls = written.get("tool_calls", [])
    if not calls:
        return "no call"
    for call in calls:
        name = call["function"]["name"]
        if schemas and name not in schemas:
            return "unknown tool"
        try:
            arguments = json.loads(call["function"]["arguments"])
        except (ValueError, RecursionError):
            return "not JSON"
        if not _accepts(schemas.get(name, {}), arguments):
            return "against the schema"
    return "the same call again" if _calls(written) & _calls(failed, call_id) else None


def _accepts(schema: Any, arguments: Any) -> bool:
    """A schema that is none, or that points elsewhere, forbids nothing; nothing is fetched."""
    from jsonschema import Draft202012Validator, SchemaError
    from jsonschema.validators import validator_for
    from referencing import Registry
    from referencing.exceptions import Unresolvable

    kind = validator_for(schema, Draft202012Validator)
    try:
        kind.check_schema(schema)
        return kind(schema, registry=Registry()).is_valid(arguments)
    except (SchemaError, Unresolvable):
        return True


def changes(found: Sequence[TurnMeasure]) -> tuple[list[Change], dict[Measure, str]]:
    """A row for each measure, and why a measure has none."""
    rows: list[Change] = []
    missing: dict[Measure, str] = {}
    for measure in MEASURES:
        values: dict[tuple[str, int], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        for one in found:
            if one.measure == measure:
                values[one.trace_id, one.turn][one.phase].append(one.value)
        paired = {
            at: {phase: fmean(several) for phase, several in by_phase.items()}
            for at, by_phase in values.items()
            if len(by_phase) == len(PHASES)
        }
        sessions = {trace_id for trace_id, _ in paired}
        if len(sessions) < FEWEST_SESSIONS:
            there = f"{counted(len(paired), 'turn')} in {counted(len(sessions), 'held-out session')}"
            missing[measure] = f"{there}; needs turns of {FEWEST_SESSIONS} sessions"
        else:
            reasons = [one.reason for one in found if one.measure == measure and one.reason]
            counts = {"wrong": len(reasons), "cut_off": reasons.count(CUT_OFF)}
            rows.append(_change(measure, paired).model_copy(update=counts))
    return rows, missing


def conclusion(rows: Iterable[Change]) -> Verdict:
    """Of all measures together: what some say and none denies."""
    told = {row.verdict for row in rows}
    if len(told & {"better", "worse"}) == 1:
        return "better" if "better" in told else "worse"
    if told - {TOO_FEW, ALIKE}:
        return "not clear"
    return ALIKE if ALIKE in told else TOO_FEW


def _change(measure: Measure, paired: Mapping[tuple[str, int], Mapping[str, float]]) -> Change:
    by_session: dict[str, list[Mapping[str, float]]] = defaultdict(list)
    for (trace_id, _), by_phase in paired.items():
        by_session[trace_id].append(by_phase)

    def estimate(value: Callable[[Mapping[str, float]], float]) -> Estimate:
        means = [fmean(map(value, turns)) for turns in by_session.values()]
        return clustered_mean(means, list(by_session)).estimate

    return Change(
        measure=measure,
        turns=len(paired),
        before=estimate(lambda values: values["before"]),
        after=estimate(lambda values: values["after"]),
        difference=estimate(lambda values: values["after"] - values["before"]),
    )


def _first_of_each_turn(sites: Iterable[ErrorSite]) -> list[ErrorSite]:
    first: dict[tuple[str, int], ErrorSite] = {}
    for site in sites:
        first.setdefault((site.trace_id, site.turn), site)
    return list(first.values())


def _acted(trace: Trace, turn: int) -> Message:
    return trace.messages[trace.turns[turn].start]


def _calls(message: Message, call_id: str | None = None) -> set[str]:
    """All of a message, or that one alone."""
    calls = message.get("tool_calls", [])
    return {canonical_tool_call(call) for call in calls if call_id in (None, call["id"])}
