"""Plain chat messages: rows, legacy calls, calls in text, padded tables, and files that belong to other readers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from composer_replication.ingestion.readers import openai_messages

from .reading_trials import Trial, trial

Row = dict[str, Any]
ASK = {"role": "user", "content": "do it"}
DONE = {"role": "assistant", "content": "Done."}


def call(call_id: str | None, arguments: object = "{}", name: str = "f") -> Row:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def read(folder: Path, *rows: object, name: str = "rows.jsonl") -> Trial:
    return trial(openai_messages.read, folder, "".join(json.dumps(row) + "\n" for row in rows), name)


def test_a_swe_gym_row(tmp_path: Path) -> None:
    tool = {"type": "function", "function": {"name": "f", "parameters": {"properties": {"a": None}, "type": "object"}}}
    messages = [
        {"role": "system", "content": "Be good.", "tool_calls": None},
        ASK,
        {"role": "assistant", "content": "", "tool_calls": [call("1", '{"a": 1}'), call("2", '{"a": 2}')]},
        {"role": "tool", "tool_call_id": "2", "content": "two"},
        {"role": "tool", "tool_call_id": "1", "content": "one"},
        DONE,
    ]
    row = {"instance_id": "i", "run_id": "gpt-4o_maxiter_30_N", "resolved": True, "messages": messages, "tools": [tool]}
    found = read(tmp_path, row)
    assert (found.trace.task_id, found.trace.outcome) == ("i", 1.0)
    assert [turn.source_model for turn in found.trace.turns] == ["gpt-4o", "gpt-4o"]
    assert found.trace.turns[0].fidelity == "exact"
    assert found.trace.messages[0]["content"] == "Be good."
    assert found.results() == [("one", False), ("two", False)]
    assert found.trace.tools[0]["function"]["parameters"] == {"properties": {}, "type": "object"}


def test_rows_lists_and_prompt_with_completion(tmp_path: Path) -> None:
    bare = [ASK, DONE]
    assert len(trial(openai_messages.read, tmp_path, bare).traces) == 1
    assert len(trial(openai_messages.read, tmp_path, [{"messages": bare}, {"messages": [ASK, DONE, ASK]}]).traces) == 2
    assert len(trial(openai_messages.read, tmp_path, [bare, bare]).traces) == 2
    found = read(tmp_path, {"prompt": [ASK], "completion": [DONE], "reward": 0.25})
    assert found.trace.outcome == 0.25
    assert found.trace.turns[0].fidelity == "reconstructed"
    assert len(read(tmp_path, {"messages": json.dumps(bare)}).traces) == 1


def test_legacy_function_calls_and_calls_without_ids(tmp_path: Path) -> None:
    messages = [
        ASK,
        {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": '{"a":1}'}},
        {"role": "function", "name": "f", "content": "one"},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"function": {"name": "g", "arguments": {"b": 2, "c": None}}}],
        },
        {"role": "tool", "name": "g", "content": "two"},
    ]
    found = read(tmp_path, {"messages": messages})
    assert found.results() == [("one", False), ("two", False)]
    assert found.actions()[1] == '<tool_call>{"arguments":{"b":2},"name":"g"}</tool_call>'


def test_ids_that_each_turn_counts_from_zero(tmp_path: Path) -> None:
    turns = [[{"role": "assistant", "content": "", "tool_calls": [call("call_0")]},
              {"role": "tool", "tool_call_id": "call_0", "content": text}] for text in ("one", "two")]  # fmt: skip
    found = read(tmp_path, {"messages": [ASK, *turns[0], *turns[1]]})
    assert found.results() == [("one", False), ("two", False)]


def test_a_call_without_a_name_keeps_its_answer(tmp_path: Path) -> None:
    reply = {"role": "assistant", "content": "", "tool_calls": [call("1", name=""), {"id": None, "function": None}]}
    found = read(tmp_path, {"messages": [ASK, reply, {"role": "tool", "tool_call_id": "1", "content": "No such tool"}]})
    assert found.results() == [("No such tool", False)]


TAGS = "Go.\n<function=f>\n<parameter=a>\n1\n</parameter>\n</function>"
JSON_IN_TAGS = 'Go.\n<tool_call>\n{"name": "f", "arguments": {"a": "1"}}\n</tool_call>'
RESPONSE = "<tool_response>\nok\n</tool_response>"


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        (TAGS, {"role": "user", "content": "EXECUTION RESULT of [f]:\nok"}),
        (JSON_IN_TAGS, {"role": "tool", "content": RESPONSE}),
        (JSON_IN_TAGS, {"role": "user", "content": RESPONSE}),
    ],
)
def test_calls_that_are_text(tmp_path: Path, reply: str, answer: Row) -> None:
    found = read(tmp_path, {"messages": [ASK, {"role": "assistant", "content": reply}, answer, DONE]})
    assert found.actions()[0] == 'Go.\n<tool_call>{"arguments":{"a":"1"},"name":"f"}</tool_call>'
    assert found.results() == [("ok", False)]
    assert found.roles(1) == "suat"


def test_text_that_is_no_call_stays(tmp_path: Path) -> None:
    for reply in ("<tool_call>{broken</tool_call>", "<function=f>", "use <tool_call> like this"):
        assert read(tmp_path, {"messages": [ASK, {"role": "assistant", "content": reply}]}).actions() == [reply]


def test_reasoning_is_not_text(tmp_path: Path) -> None:
    replies = [
        {"role": "assistant", "content": "<think>hm</think>\n\nDone."},
        {"role": "assistant", "content": "Done.", "reasoning_content": "hm"},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "Done."}]},
    ]
    for reply in replies:
        trace = read(tmp_path, {"messages": [ASK, reply]}).trace
        assert (trace.turns[0].thinking, trace.messages[2]["content"]) == ("hm", "Done.")


@pytest.mark.parametrize(("field", "wanted"), [("plan", "plan\n\nlook"), (" look ", " look "), ("", "look")])
def test_reasoning_in_a_field_and_in_the_text(tmp_path: Path, field: str, wanted: str) -> None:
    answer = {"role": "assistant", "content": "<think>look</think>Done.", "reasoning_content": field}
    found = read(tmp_path, {"messages": [ASK, answer]})
    assert (found.trace.turns[0].thinking, found.trace.messages[2]["content"]) == (wanted, "Done.")


def test_parts_and_late_system_messages(tmp_path: Path) -> None:
    parts = [{"type": "text", "text": "see"}, {"type": "image_url", "image_url": {"url": "data:"}}]
    messages = [{"role": "user", "content": parts}, {"role": "system", "content": "Be brief."}, DONE]
    found = read(tmp_path, {"messages": messages})
    assert found.texts(0)[0].startswith("see\n[image_url ")
    assert found.roles(0) == "sus"


def test_damage_is_counted(tmp_path: Path) -> None:
    rows = [
        {"messages": [ASK, 7, {"role": "robot"}, {"role": ["x"]}, {"role": "tool", "content": "lost"}, DONE]},
        {"messages": [ASK]},
        {"messages": 3},
    ]
    found = trial(openai_messages.read, tmp_path, "".join(json.dumps(row) + "\n" for row in rows) + '{"messages": [')
    assert len(found.traces) == 1
    assert found.report.skipped["result_without_call"] == 1
    assert found.report.skipped["session_without_turns"] == 2
    assert found.report.skipped["torn_last_line"] == 1
    assert found.report.unknown["unknown"] == {"int": 1, "role/robot": 1, "(other)": 1}


def test_recognises_only_what_no_other_reader_has() -> None:
    chat = [ASK, DONE]
    assert openai_messages.recognises({"messages": chat})
    assert openai_messages.recognises(chat)
    blocks = [ASK, {"role": "assistant", "content": [{"type": "tool_use", "id": "x"}]}]
    others: list[Any] = [
        None, 1, "text", [], {}, [ASK], {"messages": [ASK]}, {"messages": "x"}, {"messages": blocks}, blocks,
        {"messages": chat, "trajectory_format": "mini-swe-agent-1.1"},
        {"messages": chat, "instance_id": "i", "traj_id": "t"},
        {"messages": chat, "instance_id": "i", "model": "m", "patch": "p"},
        {"messages": chat, "kwargs": {}, "response": {}, "timestamp": 1},
        {"prompt": "a", "completion": "b"}, {"name": "x", "version": "1", "scripts": {}}, [{"role": {}}],
    ]  # fmt: skip
    assert not any(map(openai_messages.recognises, others))
