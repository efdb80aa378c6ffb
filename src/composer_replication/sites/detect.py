"""Walks a trace and turns failed tool results into error sites."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

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

from .repeats import STREAK, Repeats
from .rules import Rule, classify, unwrap


class Failure(NamedTuple):
    call: ToolCall | None
    call_id: str
    text: str
    rule: Rule
    kind: ErrorKind


def find_sites(trace: Trace) -> list[ErrorSite]:
    """At most one site per tool call, in the order of the trace."""
    agent = trace.source.agent
    # The toolbox environment itself only counts a call that failed before.
    repeats = Repeats(None if agent == "toolbox" else STREAK)
    sites: list[ErrorSite] = []
    for turn in range(len(trace.turns)):
        failures = list(_failures(trace, turn))
        sites += [_site(trace, turn, failure, repeats) for failure in failures]
        own: list[tuple[str | None, ErrorKind]] = [
            (_key(failure), failure.kind) for failure in failures if failure.rule.fault == "policy"
        ]
        repeats.end_turn(own, succeeded=any(not _failed(result) for result in _results(trace, turn)))
    return sites


def _results(trace: Trace, turn: int) -> list[Message]:
    at = trace.turns[turn]
    return [message for message in trace.messages[at.start + 1 : at.end] if message["role"] == "tool"]


def _failed(result: Message) -> bool:
    return result.get("is_error", False)


def _failures(trace: Trace, turn: int) -> Iterator[Failure]:
    agent = trace.source.agent
    calls = {call["id"]: call for call in trace.messages[trace.turns[turn].start].get("tool_calls", [])}
    seen: set[str] = set()
    for result in _results(trace, turn):
        call_id = result.get("tool_call_id", "")
        if call_id in seen or not _failed(result):
            continue
        seen.add(call_id)
        call = calls.get(call_id)
        text = unwrap(agent, result["content"])
        rule = classify(agent, text, call["function"]["name"] if call else None)
        if rule.kind is not None:
            yield Failure(call, call_id, text.removeprefix(f"{rule.kind}: "), rule, rule.kind)


def _key(failure: Failure) -> str | None:
    return canonical_tool_call(failure.call) if failure.call else None


def _site(trace: Trace, turn: int, failure: Failure, repeats: Repeats) -> ErrorSite:
    rule, tool_name = failure.rule, failure.call["function"]["name"] if failure.call else None
    repeat = repeats.reason(_key(failure), failure.kind) if rule.fault == "policy" else None
    schemas = _schemas(trace)
    return ErrorSite(
        site_id=content_id(trace.trace_id, turn, failure.call_id),
        trace_id=trace.trace_id,
        turn=turn,
        state_id=trace.state_id(turn),
        error_kind="repeated_failure" if repeat else failure.kind,
        secondary_kind=failure.kind if repeat else None,
        fault=rule.fault,
        error_message=failure.text,
        tool_name=tool_name,
        tool_schema=schemas.get(tool_name) if tool_name else None,
        available_tools=tuple(schemas),
        detector=f"{trace.source.agent}/{repeat or rule.name}",
        confidence=rule.confidence,
    )


def _schemas(trace: Trace) -> dict[str, JsonObject]:
    functions: list[JsonObject] = [tool["function"] for tool in trace.tools]
    return {function["name"]: function.get("parameters", {}) for function in functions}
