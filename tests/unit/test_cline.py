"""Cline tasks: one rule per test, on hand-written files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from composer_replication.ingestion.readers import cline

from .reading_trials import trial

Row = dict[str, Any]


def text(value: str) -> Row:
    return {"type": "text", "text": value}


def user(*blocks: Row, **more: object) -> Row:
    return {"role": "user", "content": list(blocks), **more}


def assistant(*blocks: Row, **more: object) -> Row:
    return {"role": "assistant", "content": list(blocks), **more}


def use(call_id: str, name: str, **arguments: object) -> Row:
    return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}


def result(call_id: str, content: object, **more: object) -> Row:
    return {"type": "tool_result", "tool_use_id": call_id, "content": content, **more}


TASK = user(text("<task>\nFix.\n</task>"), text("<environment_details>\nx\n</environment_details>"))


def session(*messages: Row, **more: object) -> Row:
    return {"version": 1, "agent": "lead", "sessionId": "s1", "system_prompt": "S", "messages": messages, **more}


def test_calls_written_as_tags_and_their_results(tmp_path: Path) -> None:
    call = (
        "<thinking>hm</thinking>\nWrite.\n<write_to_file>\n<path>a.svg</path>\n<content>\n"
        "<path></path></content> in text\n</content>\n</write_to_file>"
    )
    messages = [
        TASK,
        assistant(text(call)),
        user(text("[write_to_file for 'a.svg'] Result:"), text("Saved."), text("<environment_details>")),
        assistant(text("<read_file>\n<path>b</path>\n</read_file>")),
        user(
            text("[read_file for 'b'] Result:\nThe tool execution failed with the following error:\n<error>no</error>")
        ),
        assistant(text("<attempt_completion><result>ok</result></attempt_completion>")),
    ]
    assert cline.recognises(messages) and cline.recognises(messages[0])
    found = trial(cline.read, tmp_path, messages)
    arguments = json.loads(found.trace.messages[2]["tool_calls"][0]["function"]["arguments"])
    assert arguments == {"path": "a.svg", "content": "<path></path></content> in text"}
    assert found.trace.turns[0].thinking == "hm"
    assert found.trace.messages[2]["content"] == "Write."
    assert [failed for _, failed in found.results()] == [False, True, False]
    assert found.roles(1) == "suatu"


def test_the_header_of_a_result_repeats_a_command_of_several_lines(tmp_path: Path) -> None:
    command = "git commit -m 'what\n\nwhy [1]'\ngit push"
    call = assistant(text(f"<execute_command>\n<command>{command}</command>\n</execute_command>"))
    header = f"[execute_command for '{command}'] Result:"
    for answer in (user(text(f"{header}\nDone.")), user(text(header), text("Done."))):
        found = trial(cline.read, tmp_path, [TASK, call, answer, assistant(text("Ok."))])
        assert (found.results(), found.roles(1)) == ([("Done.", False)], "suat")


def test_a_text_that_only_mentions_a_tool_stays_text(tmp_path: Path) -> None:
    found = trial(cline.read, tmp_path, [TASK, assistant(text("Use <read_file> next."))])
    assert found.actions() == ["Use <read_file> next."]


def test_native_calls_with_models_and_keys(tmp_path: Path) -> None:
    first = assistant(
        {"type": "thinking", "thinking": "hm"},
        text("Look."),
        use("a", "read_files"),
        use("b", "run_commands"),
        id="m1",
        modelInfo={"id": "anthropic/claude-x"},
    )
    answers = user(
        result("b", [{"query": "x", "result": "", "success": False}]),
        result("a", [{"type": "text", "text": "file"}]),
        {"type": "file", "path": "a.py", "content": "text"},
    )
    found = trial(cline.read, tmp_path, session(user(text("Fix.")), first, answers, assistant(text("Done."), id="m2")))
    assert found.results() == [("file", False), ('[{"query":"x","result":"","success":false}]', True)]
    assert found.texts(1)[-1] == '<file_content path="a.py">\ntext\n</file_content>'
    assert (found.trace.turns[0].family, found.trace.turns[0].thinking) == ("claude", "hm")
    assert found.trace.messages[0]["content"] == "S"


@pytest.mark.parametrize(
    ("block", "failed"),
    [
        ({"content": "x", "is_error": True}, True),
        ({"content": '{"query":"q","success":false}'}, True),
        ({"content": '{"query":"q","success":true}'}, False),
        ({"content": [{"success": False}, {"success": True}]}, False),
        ({"content": "The user denied this operation."}, True),
        ({"content": "error"}, False),
    ],
)
def test_errors(tmp_path: Path, block: Row, failed: bool) -> None:
    answer = user({"type": "tool_result", "tool_use_id": "a", **block})
    found = trial(cline.read, tmp_path, session(user(text("Fix.")), assistant(use("a", "t")), answer))
    assert found.results()[0][1] is failed


def test_a_summary_in_the_middle_restarts_the_history(tmp_path: Path) -> None:
    summary = user(text("Context summary"), metadata={"kind": "compaction_summary"})
    messages = [user(text("Fix.")), assistant(text("one")), summary, assistant(text("two"))]
    found = trial(cline.read, tmp_path, session(*messages))
    assert found.texts(1) == ["Context summary"]


def test_sessions_of_subagents_are_left_out(tmp_path: Path) -> None:
    found = trial(cline.read, tmp_path, session(user(text("x")), assistant(text("y")), sessionId="s1__helper"))
    assert (found.traces, found.report.skipped) == ([], {"subagent": 1})


def test_a_task_is_named_by_its_folder_or_its_content(tmp_path: Path) -> None:
    folder = tmp_path / "1700000000000"
    folder.mkdir()
    messages = [TASK, assistant(text("x"))]
    first = trial(cline.read, folder, messages, "api_conversation_history.json").trace.trace_id
    longer = trial(cline.read, folder, [*messages, TASK], "api_conversation_history.json").trace.trace_id
    assert first == longer
    assert (
        trial(cline.read, tmp_path, messages).trace.trace_id
        != trial(cline.read, tmp_path, messages[::-1]).trace.trace_id
    )
