"""Codex rollouts, rule by rule, on records as Codex writes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from composer_replication.ingestion.readers.codex import read, recognises
from composer_replication.ingestion.reading import InputFile, ReadingReport

from .reading_trials import Row, contents, damaged, failures, read_log, roles, survives

CALL_A, CALL_B = "call_aaaaaaaaaaaaaaaaaaaa", "call_bbbbbbbbbbbbbbbbbbbb"


def record(kind: str, **payload: Any) -> Row:
    return {"timestamp": "2026-07-01T00:00:00Z", "type": kind, "payload": payload}


def meta(**more: Any) -> Row:
    base = {
        "id": "session-1",
        "cli_version": "0.140.0",
        "source": "cli",
        "base_instructions": {"text": "You are Codex."},
    }
    return record("session_meta", **{**base, **more})


def context(model: str = "gpt-5.4", turn_id: str = "round-1") -> Row:
    return record("turn_context", model=model, turn_id=turn_id)


def item(kind: str, **fields: Any) -> Row:
    return record("response_item", type=kind, **fields)


def message(role: str, text: str, **more: Any) -> Row:
    part = "output_text" if role == "assistant" else "input_text"
    return item("message", role=role, content=[{"type": part, "text": text}], **more)


def call(call_id: str, name: str = "exec_command", arguments: str = '{"cmd":"ls"}', **more: Any) -> Row:
    return item("function_call", name=name, arguments=arguments, call_id=call_id, **more)


def output(call_id: str, text: Any, kind: str = "function_call_output") -> Row:
    return item(kind, call_id=call_id, output=text)


def event(kind: str, **fields: Any) -> Row:
    return record("event_msg", type=kind, **fields)


def tokens(total: int | None) -> Row:
    return event("token_count", info=None if total is None else {"total_token_usage": {"total_tokens": total}})


def ran(code: int) -> str:
    return (
        f"Chunk ID: abc\nWall time: 0.1 seconds\nProcess exited with code {code}\nOriginal token count: 1\nOutput:\nx"
    )


SESSION = [
    meta(),
    event("task_started"),
    message("developer", "<permissions instructions>all</permissions instructions>"),
    message("user", "# AGENTS.md instructions for /repo"),
    context(),
    message("user", "fix it"),
    event("user_message", message="fix it"),
    tokens(None),
    item("reasoning", summary=[{"type": "summary_text", "text": "Look first."}], encrypted_content="…"),
    event("agent_message", message="Looking."),
    message("assistant", "Looking.", id="msg_0123456789abcdef"),
    call(CALL_A),
    tokens(None),
    call(CALL_B, arguments='{"cmd":'),
    output(CALL_A, ran(0)),
    output(CALL_B, "failed to parse function arguments: EOF"),
    tokens(100),
    message("assistant", "Done."),
    tokens(200),
    event("task_complete"),
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "rollout-1.jsonl"


def test_one_turn_per_model_call(path: Path) -> None:
    trace = read_log(read, path, SESSION).trace
    assert roles(trace.messages) == "suuuatta"
    assert trace.messages[0]["content"] == "You are Codex."
    first = trace.messages[4]
    assert [call["function"]["arguments"] for call in first.get("tool_calls", [])] == ['{"cmd":"ls"}', '{"cmd":']
    assert [turn.thinking for turn in trace.turns] == ["Look first.", ""]
    assert {turn.source_model for turn in trace.turns} == {"gpt-5.4"}
    assert trace.source.version == "0.140.0"


def test_events_that_repeat_items_are_counted_not_doubled(path: Path) -> None:
    result = read_log(read, path, SESSION)
    assert result.report.skipped["event_msg/agent_message"] == 1
    assert contents(result.trace.messages).count("Looking.") == 1


def test_rate_limit_news_in_a_call_do_not_end_it(path: Path) -> None:
    rows = [meta(), context(), message("user", "go"), tokens(5), message("assistant", "a"), tokens(5), call(CALL_A)]
    assert len(read_log(read, path, rows).trace.turns) == 1


def test_without_token_counts_an_output_ends_the_call(path: Path) -> None:
    rows = [meta(), message("user", "go"), call(CALL_A), output(CALL_A, "x"), call(CALL_B), output(CALL_B, "y")]
    assert roles(read_log(read, path, rows).trace.messages) == "suatat"


@pytest.mark.parametrize(
    ("text", "failed"),
    [
        (ran(0), False),
        (ran(2), True),
        ("Exit code: 1\nWall time: 0.1 seconds\nOutput:\nno", True),
        ("Exit code: 0\nWall time: 0.1 seconds\nOutput:\nExit code: 1\n", False),
        ('{"output":"no","metadata":{"exit_code":1,"duration_seconds":0.1}}', True),
        ('{"output":"yes","metadata":{"exit_code":0,"duration_seconds":0.1}}', False),
        ([{"type": "input_text", "text": "Script failed\nWall time 0.1 seconds\nOutput:\n"}], True),
        ([{"type": "input_text", "text": "Script completed\nWall time 0.1 seconds\nOutput:\n"}], False),
        ({"content": "no", "success": False}, True),
        ("the build printed Process exited with code 1\n", False),
        ("Exit code: " + "9" * 5000, False),
    ],
)
def test_failures_that_the_output_records(path: Path, text: Any, failed: bool) -> None:
    rows = [meta(), message("user", "go"), call(CALL_A), output(CALL_A, text)]
    assert failures(read_log(read, path, rows).trace) == [failed]


@pytest.mark.parametrize(
    "note",
    [
        event("exec_command_end", call_id=CALL_A, exit_code=1, status="failed"),
        event("patch_apply_end", call_id=CALL_A, success=False, status="failed"),
        event("mcp_tool_call_end", call_id=CALL_A, result={"Err": "gone"}),
        event("mcp_tool_call_end", call_id=CALL_A, result={"Ok": {"content": [], "isError": True}}),
        event("item_completed", item={"type": "CommandExecution", "id": CALL_A, "status": "declined"}),
        event("item_completed", item={"type": "FileChange", "id": CALL_A, "status": "failed"}),
    ],
)
def test_failures_that_events_record(path: Path, note: Row) -> None:
    rows = [meta(), message("user", "go"), call(CALL_A), note, output(CALL_A, "free text")]
    assert failures(read_log(read, path, rows).trace) == [True]


def test_a_command_that_fails_later_did_not_fail_in_its_first_output(path: Path) -> None:
    running = "Chunk ID: a\nWall time: 1.0 seconds\nProcess running with session ID 7\nOutput:\n"
    rows = [meta(), message("user", "go"), call(CALL_A), output(CALL_A, running)]
    rows += [event("exec_command_end", call_id=CALL_A, exit_code=1), call(CALL_B), output(CALL_B, ran(1))]
    assert failures(read_log(read, path, rows).trace) == [False, True]


def test_kinds_of_calls(path: Path) -> None:
    rows = [
        meta(),
        message("user", "go"),
        item("custom_tool_call", call_id=CALL_A, name="apply_patch", input="*** Begin Patch"),
        item("local_shell_call", call_id=CALL_B, action={"type": "exec", "command": ["ls"]}),
        item("web_search_call", status="completed", action={"type": "search", "query": "q"}),
        item("tool_search_call", call_id=None, execution="server", arguments={"query": "t"}),
        item("tool_search_output", call_id=None, execution="server", tools=[{"name": "t"}]),
        call("call_cccccccccccccccccccc", name="spawn_agent", namespace="collaboration", arguments="{}"),
        output(CALL_A, "Exit code: 0\nWall time: 0 seconds\nOutput:\n", "custom_tool_call_output"),
        output(CALL_B, [{"type": "input_image", "image_url": "data:…"}]),
    ]
    trace = read_log(read, path, rows).trace
    calls = [call["function"] for call in trace.messages[2].get("tool_calls", [])]
    assert [call["name"] for call in calls] == [
        "apply_patch", "local_shell", "web_search", "tool_search", "collaboration__spawn_agent",
    ]  # fmt: skip
    assert calls[0]["arguments"] == '{"input":"*** Begin Patch"}'
    answers = contents(trace.messages[3:])
    assert answers[1].startswith("[input_image ")
    assert "ran at the provider" in answers[2]
    assert answers[3] == '[{"name":"t"}]'
    assert answers[4] == "[no result recorded]"


def test_local_servers_that_repeat_call_ids_lose_nothing(path: Path) -> None:
    rows = [meta(), message("user", "go")]
    rows += [call("call_0"), output("call_0", ran(0)), call("call_0"), output("call_0", ran(1))]
    assert failures(read_log(read, path, rows).trace) == [False, True]


def test_the_model_is_that_of_the_round(path: Path) -> None:
    rows = [meta(), context("gpt-5.4"), message("user", "a"), message("assistant", "b"), tokens(1)]
    rows += [context("gpt-5.5", "round-2"), message("user", "c"), message("assistant", "d")]
    assert [turn.source_model for turn in read_log(read, path, rows).trace.turns] == ["gpt-5.4", "gpt-5.5"]


def test_a_compaction_replaces_the_history(path: Path) -> None:
    replacement = [
        message("user", "fix it")["payload"],
        message("assistant", "kept answer")["payload"],
        {"type": "compaction", "encrypted_content": "…"},
        {"type": "function_call", "name": "f", "arguments": "{}", "call_id": "x"},
    ]
    rows = [*SESSION, record("compacted", message="", replacement_history=replacement), event("context_compacted")]
    result = read_log(read, path, [*rows, message("user", "go on"), message("assistant", "sure")])
    seen = contents(result.trace.history(2))
    assert seen[:3] == ["You are Codex.", "fix it", "kept answer"]
    assert seen[3].startswith("[encrypted summary")
    assert seen[4:] == ["go on"]
    assert result.report.skipped["replacement_history/function_call"] == 1


def test_an_old_compaction_keeps_what_the_user_said(path: Path) -> None:
    rows = [*SESSION, record("compacted", message="Summary."), message("user", "on"), message("assistant", "ok")]
    seen = contents(read_log(read, path, rows).trace.history(2))
    assert seen[-3:] == ["fix it", "Summary.", "on"]
    assert "Done." not in seen


def test_a_rollback_takes_prompts_and_their_context_back(path: Path) -> None:
    rows = [meta(), message("user", "one"), message("assistant", "1"), tokens(1)]
    rows += [message("developer", "<model_switch>"), message("user", "two"), message("assistant", "2"), tokens(2)]
    rows += [message("user", "three"), message("assistant", "3"), tokens(3), event("thread_rolled_back", num_turns=2)]
    trace = read_log(read, path, [*rows, message("user", "four"), message("assistant", "4")]).trace
    assert contents(trace.history(3))[1:] == ["one", "1", "four"]
    assert [turn.abandoned for turn in trace.turns] == [False, True, True, False]


def test_a_rollback_undoes_a_compaction(path: Path) -> None:
    rows = [meta(), message("user", "one"), message("assistant", "1"), message("user", "two")]
    rows += [record("compacted", replacement_history=[message("user", "short")["payload"]]), message("assistant", "2")]
    rows += [event("thread_rolled_back", num_turns=1), message("user", "three"), message("assistant", "3")]
    assert contents(read_log(read, path, rows).trace.history(2))[1:] == ["one", "1", "three"]


def test_reasoning_of_open_models_comes_once(path: Path) -> None:
    thought = "Let me see."
    rows = [meta(), message("user", "go"), event("agent_reasoning_raw_content", text=thought)]
    rows += [item("reasoning", summary=[], content=[{"type": "reasoning_text", "text": thought}])]
    assert read_log(read, path, [*rows, message("assistant", "ok")]).trace.turns[0].thinking == thought


def test_reasoning_that_was_cut_off_is_no_turn(path: Path) -> None:
    thought = item("reasoning", summary=[{"type": "summary_text", "text": "hm"}])
    rows = [meta(), message("user", "go"), thought, message("user", "<turn_aborted>"), event("turn_aborted")]
    result = read_log(read, path, [*rows, message("user", "now"), message("assistant", "ok")])
    assert len(result.trace.turns) == 1
    assert result.report.skipped["reasoning_without_action"] == 1


@pytest.mark.parametrize(
    "more",
    [
        {"source": {"subagent": {"thread_spawn": {"depth": 1}}}},
        {"source": {"subagent": "review"}},
        {"source": {"subagent": {"other": "guardian"}}},
        {"source": {"internal": "memory_consolidation"}},
        {"thread_source": "subagent"},
    ],
)
def test_sessions_that_codex_started_itself_are_skipped(path: Path, more: Row) -> None:
    result = read_log(read, path, [meta(**more), *SESSION[1:]])
    assert result.traces == []
    assert result.report.skipped["subagent"] == 1


def test_a_rollout_of_a_subagent_is_read_when_asked_for(path: Path) -> None:
    rows = [meta(source={"subagent": "review"}), *SESSION[1:]]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    [session] = read(InputFile(path, ReadingReport(), redact=False, subagents=True))
    assert session.trace().source.subagent and len(session.turns) == 2


def test_the_first_meta_of_a_fork_counts(path: Path) -> None:
    parent = meta(id="parent", cli_version="0.1", source={"subagent": "review"})
    result = read_log(read, path, [SESSION[0], parent, *SESSION[1:]])
    assert result.trace.source.version == "0.140.0"
    assert result.report.skipped["session_meta_of_parent"] == 1


def test_copies_of_turns_in_forks_have_equal_keys(path: Path) -> None:
    keys = [_keys(path, [meta(id=name), *SESSION[1:]]) for name in ("parent", "child")]
    assert keys[0] == keys[1] == ["msg_0123456789abcdef", "round-1/2"]


def _keys(path: Path, rows: list[Row]) -> list[str]:
    read_log(read, path, rows)
    (session,) = read(InputFile(path, ReadingReport(), redact=False))
    return session.keys


def test_the_report_of_a_review_is_not_a_turn(path: Path) -> None:
    rows = [meta(), message("user", "<user_action>review</user_action>"), event("exited_review_mode")]
    rows += [message("assistant", "Review: fine."), message("user", "thanks"), message("assistant", "ok")]
    trace = read_log(read, path, rows).trace
    assert len(trace.turns) == 1
    assert contents(trace.history(0))[2:] == ["Review: fine.", "thanks"]


def test_messages_of_other_agents_are_context(path: Path) -> None:
    parts = [{"type": "input_text", "text": "Payload:"}, {"type": "encrypted_content", "encrypted_content": "…"}]
    rows = [meta(), message("user", "go"), item("agent_message", author="/root/x", recipient="/root", content=parts)]
    seen = contents(read_log(read, path, [*rows, message("assistant", "ok")]).trace.history(0))
    assert seen[2].startswith("Payload:\n[encrypted_content ")


def test_rollouts_without_envelope(path: Path) -> None:
    rows: list[Row] = [
        {"id": "old", "timestamp": "2025-06-01T00:00:00Z", "instructions": None},
        {"record_type": "state"},
        message("user", "go")["payload"],
        call(CALL_A, name="shell")["payload"],
        output(CALL_A, '{"output":"","metadata":{"exit_code":1}}')["payload"],
    ]
    assert recognises(rows[0])
    result = read_log(read, path, rows)
    assert failures(result.trace) == [True]
    assert not result.report.unknown


def test_unknown_records_are_counted_by_version(path: Path) -> None:
    rows = [*SESSION, record("novelty"), item("novelty"), event("novelty")]
    result = read_log(read, path, rows)
    assert result.report.unknown["0.140.0"] == {"novelty": 1, "response_item/novelty": 1, "event_msg/novelty": 1}


def test_torn_last_line_and_lines_that_are_not_json(path: Path) -> None:
    result = read_log(read, path, [*SESSION, 7], end='\n{"timestamp"')
    assert result.report.skipped["torn_last_line"] == 1
    assert [place.reason for place in result.report.quarantined] == ["not a JSON object"]


def test_a_deeply_nested_record_does_not_harm_the_others(path: Path) -> None:
    deep: Any = 1
    for _ in range(940):
        deep = [deep]
    result = read_log(read, path, [*SESSION[:6], item("message", role="user", content=[{"x": deep}]), *SESSION[6:]])
    assert len(result.trace.turns) == 2


@pytest.mark.parametrize("seed", range(150))
def test_no_damage_stops_the_reader(path: Path, seed: int) -> None:
    rows: list[Row] = [*SESSION, record("compacted", replacement_history=[message("user", "x")["payload"]])]
    rows += [event("thread_rolled_back", num_turns=1), message("user", "y"), message("assistant", "z")]
    survives(read, recognises, path, damaged(rows, seed))


@pytest.mark.parametrize(
    "value",
    [None, 1, "x", [], {}, {"type": "event_msg"}, {"type": ["event_msg"], "payload": {}, "timestamp": ""}, SESSION,
     {"name": "package", "type": "module"}, {"id": "1", "timestamp": "2", "type": "message", "instructions": ""}],
)  # fmt: skip
def test_other_json_is_not_recognised(value: Any) -> None:
    assert not recognises(value)


def test_every_record_is_recognised() -> None:
    assert all(map(recognises, SESSION))


def test_reading_twice_gives_the_same(path: Path) -> None:
    first = read_log(read, path, SESSION)
    assert read_log(read, path, SESSION).traces == first.traces
