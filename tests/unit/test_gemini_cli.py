"""Gemini CLI chats and logs, rule by rule."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from composer_replication.ingestion.readers.gemini_cli import read, recognises
from composer_replication.records import CLEARED_RESULT, Trace

from .reading_trials import Row, contents, damaged, failures, read_log, roles, survives, trial

METADATA: Row = {"sessionId": "s", "projectHash": "h", "startTime": "t", "lastUpdated": "t"}


def user(message_id: str, text: Any) -> Row:
    return {"id": message_id, "timestamp": "t", "type": "user", "content": text}


def answer(message_id: str, text: Any, *calls: Row, **more: Any) -> Row:
    base: Row = {"id": message_id, "timestamp": "t", "type": "gemini", "content": text, "model": "gemini-3-pro"}
    return {**base, "toolCalls": list(calls), **more}


def call(call_id: str, response: Any, status: str = "success", second: float = 1.0, name: str = "read_file") -> Row:
    result = [{"functionResponse": {"id": call_id, "name": name, "response": response}}]
    stamp = f"2026-01-01T00:00:{second:06.3f}Z"
    return {"id": call_id, "name": name, "args": {"path": "a"}, "result": result, "status": status, "timestamp": stamp}


THOUGHTS = [{"subject": "Look", "description": "First look."}]
MESSAGES: list[Row] = [
    user("u1", [{"text": "go"}]),
    answer("g1", "", call("c1", {"output": "text"}), call("c2", {"error": "gone"}, "error", 1.001), thoughts=THOUGHTS),
    {"id": "w1", "timestamp": "t", "type": "warning", "content": "hook failed"},
    answer("g2", "Done."),
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "session-1.jsonl"


def read_chat(path: Path, document: object) -> list[Trace]:
    return trial(read, path.parent, json.dumps(document, indent=1), path.name).traces


def test_a_chat(path: Path) -> None:
    (trace,) = read_chat(path, {**METADATA, "messages": MESSAGES})
    assert roles(trace.messages) == "suatta"
    assert contents(trace.messages)[3:5] == ["text", "gone"]
    assert failures(trace) == [False, True]
    assert trace.turns[0].thinking == "Look\nFirst look."
    assert trace.turns[0].family == "gemini"


def test_the_log_says_the_same_as_the_chat(path: Path) -> None:
    (chat,) = read_chat(path, {**METADATA, "messages": MESSAGES})
    rows = [METADATA, MESSAGES[0], answer("g1", ""), *MESSAGES[1:], {"$set": {"lastUpdated": "t2"}}]
    result = read_log(read, path, rows)
    assert result.trace.messages == chat.messages
    assert result.report.skipped == {"warning": 1, "message_written_again": 1}


def test_a_list_of_chats_gives_one_session_each(path: Path) -> None:
    chats = [{**METADATA, "sessionId": name, "messages": MESSAGES} for name in ("a", "b")]
    assert len({trace.trace_id for trace in read_chat(path, chats)}) == 2
    assert len(read_log(read, path, chats).traces) == 2


def test_calls_of_a_later_silent_response_are_another_turn(path: Path) -> None:
    later = call("c2", {"output": "b"}, second=9.0)
    (trace,) = read_chat(path, {**METADATA, "messages": [MESSAGES[0], answer("g1", "a", call("c1", {}), later)]})
    assert roles(trace.messages) == "suatat"
    assert [turn.source_model for turn in trace.turns] == ["gemini-3-pro"] * 2


@pytest.mark.parametrize(
    ("row", "failed"),
    [
        (call("c", {"output": "Output: x\nExit Code: 2"}, name="run_shell_command"), True),
        (call("c", {"output": "Output: Exit Code: 2"}, name="run_shell_command"), False),
        (call("c", {"output": "Exit Code: 2"}), False),
        (call("c", {"error": "[Operation Cancelled]"}, "cancelled"), True),
    ],
)
def test_failures(path: Path, row: Row, failed: bool) -> None:
    assert failures(read_log(read, path, [METADATA, MESSAGES[0], answer("g", "", row)]).trace) == [failed]


def test_a_rewind_goes_to_before_the_message(path: Path) -> None:
    rows = [METADATA, *MESSAGES, user("u2", "more"), answer("g3", "no"), {"$rewindTo": "u2"}]
    trace = read_log(read, path, [*rows, user("u3", "other"), answer("g4", "yes")]).trace
    assert contents(trace.history(3))[-2:] == ["Done.", "other"]
    assert [turn.abandoned for turn in trace.turns] == [False, False, True, False]


def test_a_rewind_to_an_unknown_message_drops_everything(path: Path) -> None:
    rows = [METADATA, *MESSAGES, {"$rewindTo": "nowhere"}, user("u2", "new"), answer("g3", "ok")]
    assert contents(read_log(read, path, rows).trace.history(2))[1:] == ["new"]


def test_a_compression_brings_a_summary_and_names_what_stays(path: Path) -> None:
    kept = [user("u2", [{"text": "more"}]), answer("g3", [{"text": "fine"}])]
    checkpoint = [user("n1", [{"text": "Summary."}]), answer("n2", [{"text": "Got it."}]), *kept]
    rows = [METADATA, *MESSAGES, user("u2", "more"), answer("g3", "fine"), {"$set": {"messages": checkpoint}}]
    result = read_log(read, path, [*rows, user("u3", "on"), answer("g4", "end")])
    assert contents(result.trace.history(3))[1:] == ["Summary.", "more", "fine", "on"]
    assert result.report.skipped["synthetic_answer"] == 1


def test_masking_empties_results(path: Path) -> None:
    masked = answer("g1", [{"functionCall": {}}], call("c1", {"output": "[masked]"}), MESSAGES[1]["toolCalls"][1])
    results = user("n1", [{"functionResponse": {"response": {}}}])
    checkpoint = [MESSAGES[0], masked, results, MESSAGES[3]]
    rows = [METADATA, *MESSAGES, {"$set": {"messages": checkpoint}}, user("u2", "on"), answer("g3", "end")]
    trace = read_log(read, path, rows).trace
    assert contents(trace.history(1))[3:] == ["text", "gone"]
    assert contents(trace.history(2))[3:] == [CLEARED_RESULT, "gone", "Done.", "on"]


def test_subagents_are_skipped(path: Path) -> None:
    result = read_log(read, path, [{**METADATA, "kind": "subagent"}, *MESSAGES])
    assert result.traces == []
    assert result.report.skipped["subagent"] == 1


def test_images_and_unknown_records(path: Path) -> None:
    picture = user("u1", [{"text": "see"}, {"inlineData": {"data": "…"}}])
    result = read_log(read, path, [METADATA, picture, answer("g1", "ok"), {"novel": 1}, {"id": "x", "type": "novel"}])
    assert result.trace.messages[1]["content"].startswith("see\n[inlineData ")
    assert result.report.unknown["unknown"] == {"novel": 2}


def test_torn_last_line(path: Path) -> None:
    result = read_log(read, path, [METADATA, *MESSAGES], end='\n{"id":')
    assert len(result.trace.turns) == 2
    assert result.report.skipped["torn_last_line"] == 1


@pytest.mark.parametrize("seed", range(100))
def test_no_damage_stops_the_reader(path: Path, seed: int) -> None:
    rows = [METADATA, *MESSAGES, user("u2", "a"), {"$rewindTo": "u2"}, user("u3", "b"), answer("g5", "c")]
    rows += [{"$set": {"messages": [user("n1", "S"), answer("n2", "T"), user("u3", "b")]}}, answer("g6", "d")]
    survives(read, recognises, path, damaged(rows, seed))


@pytest.mark.parametrize(
    "value",
    [None, [], "x", {}, {"sessionId": "s"}, {"projectHash": "h"}, {"$set": {}, "more": 1}, {"type": "gemini"},
     {"type": ["gemini"], "id": "x", "content": ""}, MESSAGES[0], [METADATA]],
)  # fmt: skip
def test_other_json_is_not_recognised(value: Any) -> None:
    assert not recognises(value)
