"""Claude Code sessions: golden slices of real files, the rules one by one, and properties over broken input."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from composer_replication.ingestion import InputFile, Quarantined, ReadingReport, detect_format
from composer_replication.ingestion.claude_code import ClaudeCodeIngester
from composer_replication.ingestion.inputs import embedded_session
from composer_replication.ingestion.readers.claude_code import read as read_sessions
from composer_replication.records import CLEARED_RESULT, Message, Trace, content_id
from composer_replication.sites import find_sites

from .reading_trials import assert_valid

GOLDEN = Path(__file__).parents[1] / "golden" / "claude_code"
FIXTURES = sorted(GOLDEN.glob("*.jsonl"))
ROLE_LETTERS = {"system": "s", "user": "u", "assistant": "a", "tool": "t"}
Row = dict[str, Any]


def user(content: object, **more: object) -> Row:
    return {"type": "user", "sessionId": "s", "message": {"role": "user", "content": content}, **more}


def assistant(message_id: str, *blocks: Row, model: str = "claude-opus-4-6", **more: object) -> Row:
    message = {"id": message_id, "model": model, "role": "assistant", "content": list(blocks)}
    return {"type": "assistant", "sessionId": "s", "message": message, **more}


def text(value: str) -> Row:
    return {"type": "text", "text": value}


def use(call_id: str, name: str = "Bash", **arguments: object) -> Row:
    return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}


def result(call_id: str, content: object, **more: object) -> Row:
    return user([{"type": "tool_result", "tool_use_id": call_id, "content": content, **more}])


def queue(operation: str, content: str | None = None) -> Row:
    return {"type": "queue-operation", "sessionId": "s", "operation": operation, "content": content}


@pytest.fixture
def session(tmp_path: Path) -> Path:
    return tmp_path / "s.jsonl"


class ReadResult(NamedTuple):
    traces: list[Trace]
    quarantined: list[Quarantined]
    skipped: Counter[str]


def read_file(path: Path) -> ReadResult:
    report = ReadingReport()
    sessions = list(read_sessions(InputFile(path, report, redact=False)))
    return ReadResult([session.trace() for session in sessions], report.quarantined, +report.skipped)


def read(path: Path, *rows: Row) -> ReadResult:
    path.write_bytes(b"".join(json.dumps(row).encode() + b"\n" for row in rows))
    return read_file(path)


def trace_of(path: Path, *rows: Row) -> Trace:
    [trace] = read(path, *rows).traces
    return trace


def said(messages: Sequence[Message]) -> list[str]:
    return [f"{ROLE_LETTERS[message['role']]}:{message['content']}" for message in messages[1:]]


def summary(path: Path) -> Row:
    read = read_file(path)
    [trace] = read.traces
    return {
        "turns": len(trace.turns),
        "roles": "".join(ROLE_LETTERS[message["role"]] for message in trace.messages),
        "segments": [[segment.start, list(segment.preserved)] for segment in trace.segments],
        "models": [turn.source_model for turn in trace.turns],
        "thinking_chars": [len(turn.thinking) for turn in trace.turns],
        "sites": [[site.turn, site.error_kind, site.fault, site.tool_name] for site in find_sites(trace)],
        "skipped": dict(sorted(read.skipped.items())),
    }


@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.stem)
def test_golden(path: Path) -> None:
    assert summary(path) == json.loads(path.with_suffix(".expected.json").read_text())


def test_there_are_golden_files() -> None:
    assert len(FIXTURES) == 8


def test_embedded_session() -> None:
    with embedded_session() as shipped:
        path, licence = shipped.path, shipped.licence
        [trace] = read_file(path).traces
    assert len(trace.turns) == 10
    assert [site.error_kind for site in find_sites(trace)] == ["type_error", "edit_precondition"]
    assert trace.source.model_dump() == {
        "agent": "claude_code", "version": "1.0.108", "file": path.name, "licence": None, "subagent": False,
    }  # fmt: skip
    assert licence == "MIT"
    rows = [json.loads(line) for line in path.read_bytes().splitlines()]
    first = next(row["message"]["id"] for row in rows if row["type"] == "assistant" and not row["isSidechain"])
    assert trace.trace_id == content_id("claude_code", "5c0375b4-57a5-4f26-b12d-d022ee4e51b7", first)
    assert Trace.model_validate_json(trace.model_dump_json()) == trace


def test_a_split_message_is_one_turn_with_its_results_behind_it(session: Path) -> None:
    trace = trace_of(
        session,
        user("go"),
        assistant("m1", {"type": "thinking", "thinking": "hm"}, text("look")),
        assistant("m1", use("c1")),
        result("c1", "one"),
        user("faster"),
        assistant("m1", use("c2")),
        result("c2", "two"),
        assistant("m2", text("done")),
    )
    assert said(trace.messages) == ["u:go", "a:look", "t:one", "t:two", "u:faster", "a:done"]
    assert [(turn.start, turn.end) for turn in trace.turns] == [(2, 5), (6, 7)]
    assert trace.turns[0].thinking == "hm"
    assert trace.turns[0].family == "claude"
    assert trace.turns[0].fidelity == "reconstructed"
    start, end = trace.turns[0].byte_range or (0, 0)
    covered = session.read_bytes()[start:end].splitlines()
    assert len(covered) == 5 and b'"hm"' in covered[0] and b'"c2"' in covered[-1]
    first, second = trace.states()
    assert said(first["messages"]) == ["u:go"]
    assert first["student_action"].startswith("<thinking>hm</thinking>\nlook\n<tool_call>")
    assert "hm" not in json.dumps(second["messages"])


def test_history_restarts_at_a_compaction(session: Path) -> None:
    boundary = {"type": "system", "subtype": "compact_boundary", "sessionId": "s"}
    trace = trace_of(
        session, user("old"), assistant("m1", text("a")), boundary, user("new"), assistant("m2", text("b"))
    )
    assert said(trace.state(1)["messages"]) == ["u:new"]
    assert trace.state(1)["messages"][0]["role"] == "system"
    assert trace.segments[1].preserved == (0,)


def compaction(*kept: str) -> Row:
    return {
        "type": "system", "subtype": "compact_boundary", "sessionId": "s",
        "compactMetadata": {"trigger": "auto", "preservedMessages": {"uuids": list(kept)}},
    }  # fmt: skip


def test_messages_kept_by_a_compaction_follow_its_summary(session: Path) -> None:
    trace = trace_of(
        session,
        user("old", uuid="u1"),
        assistant("m1", use("c1"), uuid="u2"),
        result("c1", "one"),
        assistant("m2", text("forgotten"), uuid="u3"),
        compaction("u2", "never written"),
        user("summary", isCompactSummary=True),
        user("new"),
        assistant("m3", text("b")),
    )
    assert said(trace.state(2)["messages"]) == ["u:summary", "a:", "t:one", "u:new"]
    assert said(trace.state(1)["messages"]) == ["u:old", "a:", "t:one"]


def test_a_system_prompt_of_ours_is_marked(session: Path) -> None:
    trace = trace_of(session, user("go"), assistant("m1", text("a")))
    assert trace.messages[0]["role"] == "system"
    assert trace.system_is_ours
    assert Trace.model_validate_json(trace.model_dump_json()).system_is_ours


def test_kept_messages_that_the_file_lacks_are_counted_and_lower_the_fidelity(session: Path) -> None:
    read_result = read(
        session,
        user("old", uuid="u1"),
        assistant("m1", text("a"), uuid="u2"),
        compaction("u2", "u7", "u8"),
        user("summary", isCompactSummary=True),
        assistant("m2", text("b")),
        user("new", uuid="u5", parentUuid=None),
        assistant("m3", text("c")),
        compaction(),
        user("summary", isCompactSummary=True),
        assistant("m4", text("d")),
    )
    fidelities = [turn.fidelity for turn in read_result.traces[0].turns]
    assert fidelities == ["reconstructed", "partial", "partial", "reconstructed"]
    assert read_result.skipped == {"kept_message_not_in_file": 2}


@pytest.mark.parametrize(("tail", "kept", "fidelity"), [("u4", ["a:kept", "u:also"], "reconstructed"),
                                                       ("gone", ["a:kept"], "partial")])  # fmt: skip
def test_a_kept_segment_without_a_list_of_messages(session: Path, tail: str, kept: list[str], fidelity: str) -> None:
    boundary = compaction()
    boundary["compactMetadata"] = {"preservedSegment": {"headUuid": "u2", "anchorUuid": "x", "tailUuid": tail}}
    trace = trace_of(
        session,
        user("old", uuid="u1"),
        assistant("m1", text("kept"), uuid="u2"),
        user("also", uuid="u4", parentUuid="u2"),
        boundary,
        user("summary", isCompactSummary=True),
        assistant("m2", text("b")),
    )
    assert said(trace.state(1)["messages"]) == ["u:summary", *kept]
    assert trace.turns[1].fidelity == fidelity


def test_a_rewind_is_seen_through_records_of_the_harness(session: Path) -> None:
    trace = trace_of(
        session,
        user("start", uuid="u1"),
        assistant("m1", text("ready"), uuid="u2"),
        {"type": "system", "subtype": "stop_hook_summary", "sessionId": "s", "uuid": "s1", "parentUuid": "u2"},
        {"type": "system", "subtype": "turn_duration", "sessionId": "s", "uuid": "s2", "parentUuid": "s1"},
        user("badly", uuid="u3", parentUuid="s2"),
        assistant("m2", text("bad"), uuid="u4"),
        user("well", uuid="u5", parentUuid="u2"),
        assistant("m3", text("good"), uuid="u6"),
    )
    assert [turn.abandoned for turn in trace.turns] == [False, True, False]
    assert said(trace.state(2)["messages"]) == ["u:start", "a:ready", "u:well"]


def test_a_file_of_a_subagent_is_read_when_asked_for(session: Path) -> None:
    side: Row = {"isSidechain": True, "agentId": "a1"}
    rows = [user("look", parentUuid=None, **side), assistant("m1", text("found"), **side)]
    left_out = read(session, *rows)
    assert (left_out.traces[0].turns, left_out.skipped) == ((), {"subagent": 1, "sidechain": 2})
    report = ReadingReport()
    [wanted] = read_sessions(InputFile(session, report, redact=False, subagents=True))
    trace = wanted.trace()
    assert said(trace.messages) == ["u:look", "a:found"]
    assert trace.source.subagent and trace.turns[0].fidelity == "reconstructed"
    assert not +report.skipped


def test_a_rewind_takes_the_abandoned_branch_out_of_the_history(session: Path) -> None:
    trace = trace_of(
        session,
        user("start", uuid="u1"),
        assistant("m1", text("ready"), uuid="u2"),
        user("do it badly", uuid="u3", parentUuid="u2"),
        assistant("m2", text("bad"), uuid="u4"),
        user("[Request interrupted by user]", uuid="u5", parentUuid="u4"),
        user("do it well", uuid="u6", parentUuid="u2"),
        assistant("m3", text("good"), uuid="u7"),
        user("thanks", uuid="u8", parentUuid="u7"),
        assistant("m4", text("bye"), uuid="u9"),
    )
    assert [turn.abandoned for turn in trace.turns] == [False, True, False, False]
    assert said(trace.state(1)["messages"]) == ["u:start", "a:ready", "u:do it badly"]
    assert said(trace.state(3)["messages"]) == ["u:start", "a:ready", "u:do it well", "a:good", "u:thanks"]


def test_results_cleared_from_the_context_are_hidden_from_then_on(session: Path) -> None:
    clearing = {
        "type": "system", "subtype": "microcompact_boundary", "sessionId": "s",
        "microcompactMetadata": {"compactedToolIds": ["c1"]},
    }  # fmt: skip
    trace = trace_of(
        session,
        user("go"),
        assistant("m1", use("c1"), use("c2")),
        result("c1", "long"),
        result("c2", "short"),
        assistant("m2", text("a")),
        clearing,
        assistant("m3", text("b")),
    )
    assert said(trace.state(1)["messages"]) == ["u:go", "a:", "t:long", "t:short"]
    assert said(trace.state(2)["messages"]) == ["u:go", "a:", f"t:{CLEARED_RESULT}", "t:short", "a:a"]


def attachment(kind: str, **more: object) -> Row:
    return {"type": "attachment", "sessionId": "s", "attachment": {"type": kind, **more}}


def test_a_recorded_system_prompt_and_tools_are_used(session: Path) -> None:
    snapshot = attachment(
        "prompt_snapshot",
        systemPrompt=["You are", "exact."],
        tools=[{"name": "Bash", "description": "runs", "input_schema": {"type": "object"}}],
    )
    trace = trace_of(session, snapshot, user("go"), assistant("m1", text("a")))
    assert trace.messages[0]["content"] == "You are\nexact."
    assert not trace.system_is_ours
    assert [tool["function"] for tool in trace.tools] == [
        {"name": "Bash", "description": "runs", "parameters": {"type": "object"}}
    ]
    assert not trace.tools_inferred


def test_tools_are_inferred_from_calls_that_worked(session: Path) -> None:
    trace = trace_of(
        session,
        assistant("m1", use("c1", "Read", path="a", limit=3), use("c2", "Read", path="b"), use("c3", "Reed", path="c")),
        result("c1", "1"),
        result("c2", "2"),
        result("c3", "no such tool", is_error=True),
    )
    assert trace.tools_inferred
    assert [tool["function"] for tool in trace.tools] == [
        {
            "name": "Read",
            "parameters": {
                "type": "object",
                "properties": {"path": {"type": "string"}, "limit": {"type": "integer"}},
                "required": ["path"],
            },
        }
    ]


REMINDERS: dict[str, tuple[Row, str | None]] = {
    "as it was sent": (attachment("from_the_future", rendered=[{"text": "<system-reminder>x</system-reminder>"}]),
                       "<system-reminder>x</system-reminder>"),
    "context of a hook": (attachment("hook_additional_context", content=["be kind"]),
                          "<system-reminder>\nbe kind\n</system-reminder>"),
    "a file": (attachment("file", filename="a.py", content={"type": "text", "file": {"content": "x = 1"}}),
               "<system-reminder>\na.py\nx = 1\n</system-reminder>"),
    "what a hook printed at the start": (
        attachment("hook_success", hookEvent="SessionStart", hookName="SessionStart:startup", content="Be terse."),
        "<system-reminder>\nBe terse.\n</system-reminder>"),
    "what a language server found": (
        attachment("diagnostics", isNew=True, files=[{"uri": "file:///a.py", "diagnostics": [
            {"message": "no x", "severity": "Error", "range": {"start": {"line": 4, "character": 0}}}]}]),
        "<system-reminder>\n/a.py:\n  Error [line 5] no x\n</system-reminder>"),
    "bookkeeping": (attachment("hook_success", content="ok"), None),
}  # fmt: skip


@pytest.mark.parametrize("case", REMINDERS)
def test_context_that_the_harness_shows(session: Path, case: str) -> None:
    row, expected = REMINDERS[case]
    read_result = read(session, row, assistant("m1", text("a")))
    assert said(read_result.traces[0].messages) == [*([f"u:{expected}"] if expected else []), "a:a"]
    assert read_result.skipped == ({} if expected else {"attachment/hook_success": 1})


def test_unknown_record_types_are_counted_by_version(session: Path) -> None:
    session.write_text(json.dumps({"type": "tomorrow", "version": "9.9"}) + "\n")
    report = ReadingReport()
    list(read_sessions(InputFile(session, report, redact=False)))
    assert report.unknown == {"9.9": {"tomorrow": 1}}


def test_a_text_that_stays_in_the_queue_is_counted(session: Path) -> None:
    assert read(session, assistant("m1", text("a")), queue("enqueue", "wait")).skipped == {"queued_and_never_sent": 1}


def test_missing_and_stray_results(session: Path) -> None:
    read_result = read(session, assistant("m1", use("c1")), result("c0", "lost"))
    assert said(read_result.traces[0].messages) == ["a:", "t:[no result recorded]"]
    assert read_result.skipped == {"result_without_call": 1}


def test_failed_results_are_marked(session: Path) -> None:
    trace = trace_of(
        session, assistant("m1", use("c1"), use("c2")), result("c1", "x", is_error=True), result("c2", "y")
    )
    assert [message.get("is_error") for message in trace.messages[2:]] == [True, None]


def test_result_parts_become_text(session: Path) -> None:
    def placeholder(data: str) -> str:
        parts = [text("see"), {"type": "image", "source": {"type": "base64", "data": data}}]
        return trace_of(session, assistant("m1", use("c1")), result("c1", parts)).messages[2]["content"]

    assert placeholder("AAAA").startswith("see\n[image ")
    assert "AAAA" not in placeholder("AAAA")
    assert placeholder("AAAA") == placeholder("AAAA") != placeholder("BBBB")


def test_an_input_that_was_not_json_is_kept_as_written(session: Path) -> None:
    trace = trace_of(session, assistant("m1", use("c1", __unparsedToolInput={"raw": '{"a": ', "len": 6})))
    assert trace.messages[1]["tool_calls"][0]["function"]["arguments"] == '{"a": '


def test_rows_that_are_not_turns_are_counted(session: Path) -> None:
    read_result = read(
        session,
        user("go", uuid="u1"),
        user("go", uuid="u1"),
        assistant("m0", text("side"), isSidechain=True),
        assistant("m1", text("No response requested."), model="<synthetic>"),
        assistant("m2", text("API Error"), model="<synthetic>", isApiErrorMessage=True),
        {"type": "from-the-future"},
        assistant("m3", text("hello")),
    )
    assert said(read_result.traces[0].messages) == ["u:go", "a:hello"]
    assert read_result.skipped == {
        "duplicate_uuid": 1, "sidechain": 1, "synthetic": 1, "api_error": 1, "unknown/from-the-future": 1,
    }  # fmt: skip


NOTICE = "<task-notification>done</task-notification>"


def attached(prompt: str) -> Row:
    return attachment("queued_command", prompt=prompt, commandMode="prompt")


STEERING: dict[str, tuple[list[Row], list[str]]] = {
    "removed from the queue and recorded nowhere else": ([queue("enqueue", "stop"), queue("remove")], ["u:stop"]),
    "recorded again as a user row": ([queue("enqueue", "stop"), queue("dequeue"), user("stop")], ["u:stop"]),
    "recorded again as an attachment": (
        [
            queue("enqueue", "stop"),
            queue("remove"),
            attached("stop"),
        ],
        ["u:stop"],
    ),
    "typed again in a later turn": (
        [queue("enqueue", "stop"), queue("remove"), assistant("m2", text("ok")), user("stop")],
        ["u:stop", "a:ok", "u:stop"],
    ),
    "handed back": (
        [queue("enqueue", "stop"), queue("popAll"), queue("enqueue", "go on"), queue("remove")],
        ["u:go on"],
    ),
    "a command of the harness": ([queue("enqueue", "/model"), queue("remove")], []),
    "delivered before what waited longer": (
        [queue("enqueue", NOTICE), queue("enqueue", "fix it"), queue("remove"), attached("fix it")],
        ["u:fix it"],
    ),
    "dequeued before what waited longer": (
        [queue("enqueue", NOTICE), queue("enqueue", "fix it"), queue("dequeue"), user("fix it")],
        ["u:fix it"],
    ),
    "typed overtakes a notice where no delivery is recorded": (
        [queue("enqueue", NOTICE), queue("enqueue", "fix it"), queue("remove"), assistant("m2"), queue("remove")],
        ["u:fix it", "a:", f"u:{NOTICE}"],
    ),
    "attached after another answer": (
        [queue("enqueue", "stop"), queue("remove"), assistant("m2", text("ok")), attached("stop")],
        ["a:ok", "u:stop"],
    ),
    "attached without having been queued in this file": (
        [queue("enqueue", "later"), queue("remove"), attached("stop")],
        ["u:stop"],
    ),
    "two that become one row": (
        [queue("enqueue", "a"), queue("enqueue", "b"), queue("dequeue"), queue("dequeue"), user("a\nb")],
        ["u:a\nb"],
    ),
    "an event of a background task": ([queue("enqueue", '{"task_id":"b1"}'), queue("remove")], []),
}


@pytest.mark.parametrize("case", STEERING)
def test_queued_user_text(session: Path, case: str) -> None:
    rows, expected = STEERING[case]
    assert said(trace_of(session, assistant("m1", text("hi")), *rows).messages) == ["a:hi", *expected]


def test_a_broken_line_is_quarantined_and_a_torn_one_is_not(session: Path) -> None:
    good = json.dumps(assistant("m1", text("hi"))).encode() + b"\n"
    session.write_bytes(good + b'{"a": 1}{"b": 2}\n' + b"[1]\n" + good[:40])
    read_result = read_file(session)
    assert len(read_result.traces[0].turns) == 1
    assert [(entry.file, entry.byte_offset) for entry in read_result.quarantined] == [
        ("s.jsonl", len(good)),
        ("s.jsonl", len(good) + 17),
    ]
    assert read_result.skipped["torn_last_line"] == 1


def test_half_an_emoji_does_not_cost_the_line(session: Path) -> None:
    session.write_bytes(json.dumps(assistant("m1", text("hi \ud83d"))).encode() + b"\n")
    [trace] = read_file(session).traces
    assert trace.messages[1]["content"] == "hi ?"


def assert_sound(read_result: ReadResult) -> None:
    for trace in read_result.traces:
        for state in trace.states():
            assert state["messages"][0]["role"] == "system"
            assert_valid(state["messages"])
        assert_valid(trace.messages)
        find_sites(trace)


def models(read_result: ReadResult) -> list[str | None]:
    return [turn.source_model for trace in read_result.traces for turn in trace.turns]


property_settings = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@property_settings
@given(data=st.data())
def test_any_prefix_of_a_file_reads(session: Path, data: st.DataObject) -> None:
    whole_file = data.draw(st.sampled_from(FIXTURES))
    content = whole_file.read_bytes()
    session.write_bytes(content[: data.draw(st.integers(0, len(content)))])
    part = read_file(session)
    assert_sound(part)
    assert not part.quarantined
    complete_lines = [json.loads(line) for line in session.read_bytes().splitlines(keepends=True) if line[-1:] == b"\n"]
    ids = {row["message"]["id"] for row in complete_lines if row["type"] == "assistant" and not row.get("isSidechain")}
    found, whole = models(part), models(read_file(whole_file))
    assert len(found) - len(ids) in (0, 1)  # a last line may be whole and lack only its newline
    assert found == whole[: len(found)]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@property_settings
@given(data=st.data())
def test_any_field_may_hold_anything(session: Path, data: st.DataObject) -> None:
    rows = [json.loads(line) for line in data.draw(st.sampled_from(FIXTURES)).read_bytes().splitlines()]
    for _ in range(data.draw(st.integers(1, 4))):
        place: Any = data.draw(st.sampled_from(rows))
        key: Any = data.draw(st.sampled_from(sorted(place)))
        while isinstance(place[key], dict | list) and place[key] and data.draw(st.booleans()):
            place = place[key]
            key = data.draw(st.sampled_from(sorted(place) if isinstance(place, dict) else range(len(place))))
        place[key] = data.draw(json_values)
    assert_sound(read(session, *rows))


def test_ingest_yields_the_states(session: Path) -> None:
    trace = trace_of(session, user("go"), assistant("m1", text("hi")))
    assert list(ClaudeCodeIngester(redact=False).ingest(session)) == list(trace.states())


def test_detect_format(tmp_path: Path) -> None:
    assert {detect_format(InputFile(path, ReadingReport())) for path in FIXTURES} == {"claude_code"}
    other = tmp_path / "other.jsonl"
    other.write_text('{"type": "session_meta", "sessionId": "s"}\nnot json\n')
    assert detect_format(InputFile(other, ReadingReport())) is None


def test_records_without_a_parent_are_no_rewind_and_an_edited_first_prompt_is(session: Path) -> None:
    rows = [user("one"), assistant("m1", text("a")), user("two"), assistant("m2", text("b"))]
    assert [turn.abandoned for turn in trace_of(session, *rows).turns] == [False, False]
    rows = [user("one", parentUuid=None), rows[1], user("two", parentUuid=None), rows[3]]
    assert [turn.abandoned for turn in trace_of(session, *rows).turns] == [True, False]
