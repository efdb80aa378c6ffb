"""Walks a trace and turns what went wrong into error sites."""

from __future__ import annotations

from collections.abc import Sequence

from composer_replication.records import (
    ErrorKind,
    ErrorSite,
    JsonObject,
    Message,
    ToolCall,
    Trace,
    canonical_tool_call,
    content_id,
)

from .blame import EditsSince, may_change
from .corrections import Correction, corrections, said_site
from .results import Failure, failure_of, passed
from .shell import command_of

STREAK = 3
BROKEN_BY_EDIT = "broken_by_edit"
EXPLAINED = "\n\nThe user then said:\n"
"""Between a refusal and the reason that the user gave in the next message."""


def find_sites(trace: Trace) -> list[ErrorSite]:
    """At most one site per tool call, in the order of the trace, then what the user said about the turn."""
    # The toolbox environment itself only counts a call that failed before.
    repeats = Repeats(None if trace.source.agent == "toolbox" else STREAK)
    schemas, edits = _schemas(trace), EditsSince()
    heard = {found.said.turn: found for found in reversed([*corrections(trace)])}
    sites: list[ErrorSite] = []
    changes = 0
    for turn in range(len(trace.turns)):
        at = trace.turns[turn]
        agent, said = trace.source.agent, trace.messages[at.start]["content"] or at.thinking
        outcomes: list[tuple[ToolCall | None, Message, Failure | None]] = []
        keys: dict[str, str | None] = {}
        for call, result in _answers(trace, turn):
            failure = failure_of(agent, said, call, result)
            outcomes.append((call, result, failure))
            keys[result.get("tool_call_id", "")] = _key(call, changes)
            changes += failure is None and may_change(call)
        found = [(call, result, failure) for call, result, failure in outcomes if failure]
        refused = any(failure.kind == "user_rejection" for _, _, failure in found)
        for call, result, failure in found:
            edit = edits.broken_by(call, failure.text) if failure.fault == "policy" else None
            call_id = result.get("tool_call_id", "")
            if edit:
                # The turn is that of the edit, the call that failed is the command's.
                broken = failure._replace(rule=BROKEN_BY_EDIT)
                sites.append(_site(trace, edit.turn, edit.tool, call_id, broken, schemas))
            else:
                repeat = repeats.reason(keys[call_id], failure.kind) if failure.fault == "policy" else None
                tool, explained = call["function"]["name"] if call else None, _explained(failure, heard.get(turn))
                sites.append(_site(trace, turn, tool, call_id, explained, schemas, repeat))
        for call, result, failure in outcomes:
            edits.feed(turn, call, failed=failure is not None or not passed(call, result))
        if turn in heard and not refused:
            sites.append(_heard(trace, turn, heard[turn]))
        own: list[tuple[str | None, ErrorKind]] = [
            (keys[result.get("tool_call_id", "")], failure.kind)
            for _, result, failure in found
            if failure.fault == "policy"
        ]
        repeats.end_turn(own, succeeded=any(not failure for _, _, failure in outcomes))
    return sorted(sites, key=lambda site: site.turn)


class Repeats:
    """When a failure is a repetition: the actor had seen the error and did the same again. Fed turn by turn.

    Calls of one turn run side by side, so they never repeat each other. Only the policy's own failures count.
    `max_streak` None switches the rule about failures of one kind off.
    """

    def __init__(self, max_streak: int | None = STREAK) -> None:
        self._max_streak = max_streak
        self._failed_calls: set[str] = set()
        self._streak_kind: ErrorKind | None = None
        self._streak = 0

    def reason(self, call: str | None, kind: ErrorKind) -> str | None:
        """Why a failure in the current turn is a repetition, judged by the turns before it."""
        if call is not None and call in self._failed_calls:
            return "same_call"
        if self._max_streak and kind == self._streak_kind and self._streak + 1 >= self._max_streak:
            return "streak"
        return None

    def end_turn(self, failures: Sequence[tuple[str | None, ErrorKind]], succeeded: bool) -> None:
        self._failed_calls.update(call for call, _ in failures if call is not None)
        if failures:
            kind = failures[-1][1]
            self._streak = self._streak + 1 if kind == self._streak_kind else 1
            self._streak_kind = kind
        elif succeeded:
            self._streak, self._streak_kind = 0, None


def _answers(trace: Trace, turn: int) -> list[tuple[ToolCall | None, Message]]:
    """The results of a turn with their calls; a turn that could not be parsed has a result without a call."""
    at = trace.turns[turn]
    calls = {call["id"]: call for call in trace.messages[at.start].get("tool_calls", [])}
    results: dict[str, Message] = {}
    for message in trace.messages[at.start + 1 : at.end]:
        if message["role"] == "tool":
            results.setdefault(message.get("tool_call_id", ""), message)
    return [(calls.get(call_id), result) for call_id, result in results.items()]


def _key(call: ToolCall | None, changes: int) -> str | None:
    """A command that is run again after a change tries something else, though it reads the same."""
    if call is None or command_of(call) is None:
        return canonical_tool_call(call) if call else None
    return f"{changes} {canonical_tool_call(call)}"


def _site(
    trace: Trace,
    turn: int,
    tool: str | None,
    call_id: str,
    failure: Failure,
    schemas: dict[str, JsonObject],
    repeat: str | None = None,
) -> ErrorSite:
    """`repeat` is why the failure is a repetition, if it is one."""
    return ErrorSite(
        site_id=content_id(trace.trace_id, turn, call_id),
        trace_id=trace.trace_id,
        turn=turn,
        state_id=trace.state_id(turn),
        error_kind="repeated_failure" if repeat else failure.kind,
        secondary_kind=failure.kind if repeat else None,
        fault=failure.fault,
        error_message=failure.text,
        call_id=call_id or None,
        tool_name=tool,
        tool_schema=schemas.get(tool) if tool else None,
        available_tools=tuple(schemas),
        detector=f"{trace.source.agent}/{repeat or failure.rule}",
        confidence=failure.confidence,
    )


def _explained(failure: Failure, heard: Correction | None) -> Failure:
    """A refused call with the reason that the user gave in the next message, unless it came with the refusal."""
    if failure.kind != "user_rejection" or heard is None or heard.words in failure.text:
        return failure
    return failure._replace(text=f"{failure.text}{EXPLAINED}{heard.words}")


def _heard(trace: Trace, turn: int, heard: Correction) -> ErrorSite:
    detector = f"{trace.source.agent}/{heard.rule}"
    if heard.said.interrupted:
        return said_site(trace, turn, "interruption", heard.words, detector, confidence=1.0, fault="user")
    return said_site(trace, turn, heard.kind, heard.words, detector, heard.confidence)


def _schemas(trace: Trace) -> dict[str, JsonObject]:
    functions: list[JsonObject] = [tool["function"] for tool in trace.tools]
    return {function["name"]: function.get("parameters", {}) for function in functions}
