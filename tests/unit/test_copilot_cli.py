"""Copilot CLI events, rule by rule."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from composer_replication.ingestion.readers.copilot_cli import read, recognises

from .reading_trials import Row, contents, damaged, failures, read_log, roles, survives


def event(kind: str, event_id: str = "", **data: Any) -> Row:
    return {"type": kind, "id": event_id or kind, "timestamp": "t", "parentId": None, "data": data}


def user(text: str, event_id: str = "", **more: Any) -> Row:
    return event("user.message", event_id or f"user {text}", content=text, **more)


def answer(text: str, *calls: str, api: str = "", **more: Any) -> Row:
    requests = [{"toolCallId": call, "name": "bash", "arguments": {"command": call}} for call in calls]
    data: Row = {"content": text, "toolRequests": requests, "apiCallId": api or f"api {text}{calls}", **more}
    return event("assistant.message", f"answer {text}{calls}", **data)


def done(call: str, text: str, success: bool = True, **more: Any) -> Row:
    result = {"result": {"content": text}} if success else {"error": {"message": text}}
    return event("tool.execution_complete", toolCallId=call, success=success, **result, **more)


START = event("session.start", sessionId="s", copilotVersion="1.0.64", selectedModel="gpt-5")
SESSION = [
    START,
    event("hook.start"),
    event("system.message", role="system", content="You are Copilot."),
    user("go", transformedContent="<now>\n\ngo"),
    event("assistant.turn_start", turnId="0"),
    answer("", "c1", "c2", reasoningText="Two looks.", model="claude-sonnet-4.6"),
    event("tool.execution_start", toolCallId="c1"),
    done("c2", "x\n<shellId: 2 completed with exit code 1>"),
    done("c1", "ok\n<shellId: 1 completed with exit code 0>"),
    answer("Done."),
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "events.jsonl"


def test_an_event_that_stands_there_twice_counts_once(path: Path) -> None:
    twice = [event for event in SESSION for _ in range(2)]
    result = read_log(read, path, twice)
    assert result.trace.messages == read_log(read, path, SESSION).trace.messages
    assert result.report.skipped["duplicate_event"] == 3


def test_messages_calls_and_results(path: Path) -> None:
    result = read_log(read, path, SESSION)
    trace = result.trace
    assert roles(trace.messages) == "suatta"
    assert contents(trace.messages)[:2] == ["You are Copilot.", "<now>\n\ngo"]
    assert failures(trace) == [False, True]
    assert trace.turns[0].thinking == "Two looks."
    assert trace.turns[0].source_model == "claude-sonnet-4.6"
    assert trace.source.version == "1.0.64"
    assert result.report.skipped["hook.start"] == 1


def test_chunks_of_one_response_are_one_turn(path: Path) -> None:
    rows = [START, user("go"), answer("a", api="r1"), answer("b", "c1", api="r1"), done("c1", "x")]
    trace = read_log(read, path, rows).trace
    assert len(trace.turns) == 1
    assert trace.messages[2]["content"] == "a\n\nb"


@pytest.mark.parametrize(
    ("row", "failed"),
    [
        (done("c1", "denied", success=False), True),
        (done("c1", "x\n<exited with exit code 3>"), True),
        (done("c1", "<exited with exit code 3> was printed\nand more"), False),
    ],
)
def test_failures(path: Path, row: Row, failed: bool) -> None:
    assert failures(read_log(read, path, [START, user("go"), answer("", "c1"), row]).trace) == [failed]


def test_events_of_subagents_are_skipped(path: Path) -> None:
    inner = {**answer("inner", "c9"), "agentId": "agent-1"}
    older = done("c9", "x", parentToolCallId="c1")
    result = read_log(read, path, [*SESSION, inner, older])
    assert len(result.trace.turns) == 2
    assert result.report.skipped["subagent"] == 2


def test_a_compaction_keeps_what_came_since_its_start(path: Path) -> None:
    rows = [*SESSION, event("session.compaction_start"), user("more"), answer("", "c3"), done("c3", "y")]
    rows += [event("session.compaction_complete", success=True, summaryContent="Summary."), answer("end")]
    assert contents(read_log(read, path, rows).trace.history(3)) == ["You are Copilot.", "Summary.", "more", "", "y"]


def test_a_failed_compaction_changes_nothing(path: Path) -> None:
    rows = [*SESSION, event("session.compaction_complete", success=False, error="e"), user("b"), answer("end")]
    assert len(read_log(read, path, rows).trace.segments) == 1


def test_a_rewind_to_an_event_that_is_still_there(path: Path) -> None:
    rows = [*SESSION, user("second", "u2"), answer("two"), event("session.snapshot_rewind", upToEventId="u2")]
    trace = read_log(read, path, [*rows, user("third"), answer("three")]).trace
    assert contents(trace.history(3))[-2:] == ["Done.", "third"]
    assert [turn.abandoned for turn in trace.turns] == [False, False, True, False]


def test_notifications_and_cleared_context(path: Path) -> None:
    rows = [*SESSION, event("session.context_cleared", messagesCleared=5)]
    rows += [event("system.notification", content="<system_notification>done</system_notification>"), answer("ok")]
    seen = contents(read_log(read, path, rows).trace.history(2))
    assert seen == ["You are Copilot.", "<system_notification>done</system_notification>"]


def test_a_tool_that_the_user_ran_is_no_result(path: Path) -> None:
    result = read_log(read, path, [*SESSION, done("u1", "x", isUserRequested=True)])
    assert result.report.skipped["result_without_call"] == 1


def test_unknown_events_and_a_torn_last_line(path: Path) -> None:
    result = read_log(read, path, [*SESSION, event("novelty.happened")], end='\n{"type":')
    assert result.report.unknown["1.0.64"] == {"novelty.happened": 1}
    assert result.report.skipped["torn_last_line"] == 1


@pytest.mark.parametrize("seed", range(100))
def test_no_damage_stops_the_reader(path: Path, seed: int) -> None:
    rows = [*SESSION, event("session.compaction_start"), user("more"), answer("end")]
    rows += [event("session.compaction_complete", success=True, summaryContent="S"), user("u"), answer("v")]
    survives(read, recognises, path, damaged([*rows, event("session.snapshot_rewind", upToEventId="user more")], seed))


@pytest.mark.parametrize(
    "value", [None, [], "x", {"type": "session.start"}, {"type": {}, "data": {}, "parentId": None}, SESSION]
)
def test_other_json_is_not_recognised(value: Any) -> None:
    assert not recognises(value)
