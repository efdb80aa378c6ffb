"""mini-swe-agent: one rule per test, on hand-written files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from composer_replication.ingestion.readers import mini_swe_agent

from .reading_trials import trial

Row = dict[str, Any]
START: list[Row] = [{"role": "system", "content": "S"}, {"role": "user", "content": "Fix."}]


def bash(text: str, command: str) -> Row:
    return {"role": "assistant", "content": f"{text}\n\n```bash\n{command}\n```"}


def observed(code: int, output: str, **more: object) -> Row:
    return {"role": "user", "content": f"<returncode>{code}</returncode>\n<output>\n{output}\n</output>", **more}


def response(number: int, command: str, name: str = "bash", arguments: str | None = None) -> Row:
    function = {"name": name, "arguments": arguments or json.dumps({"command": command})}
    message = {"role": "assistant", "content": "", "tool_calls": [{"id": f"c{number}", "function": function}]}
    return {"id": f"r{number}", "model": "gpt-x", "object": "chat.completion", "choices": [{"message": message}]}


def called(number: int, command: str) -> Row:
    recorded = response(number, command)
    return {**recorded["choices"][0]["message"], "extra": {"response": recorded}}


def result(number: int, code: int | None) -> Row:
    content = f"<returncode>{code}</returncode>"
    return {"role": "tool", "tool_call_id": f"c{number}", "content": content, "extra": {"returncode": code}}


def document(*messages: Row) -> Row:
    info = {"mini_version": "2.2.7", "config": {"model": {"model_name": "openai/gpt-x"}}}
    return {"info": info, "messages": [*START, *messages], "trajectory_format": "mini-swe-agent-1.1"}


def test_a_bare_list_with_bash_blocks(tmp_path: Path) -> None:
    messages = [*START, bash("Look.", "ls"), observed(0, "a"), bash("Fail.", "false"), observed(1, "")]
    assert mini_swe_agent.recognises(messages)
    found = trial(mini_swe_agent.read, tmp_path, messages)
    assert found.actions()[0] == 'Look.\n<tool_call>{"arguments":{"command":"ls"},"name":"bash"}</tool_call>'
    assert [failed for _, failed in found.results()] == [False, True]
    assert found.roles(1) == "suat"
    assert found.trace.turns[0].fidelity == "reconstructed"


def test_two_blocks_are_no_call_and_the_complaint_is_context(tmp_path: Path) -> None:
    double = {"role": "assistant", "content": "```bash\na\n```\n```bash\nb\n```"}
    found = trial(mini_swe_agent.read, tmp_path, [*START, double, {"role": "user", "content": "ONE"}, bash("x", "ls")])
    assert found.actions()[0] == double["content"]
    assert found.roles(1) == "suau"


def test_tool_calls_are_exact_and_turns_keep_the_response_id(tmp_path: Path) -> None:
    exit_message = {"role": "exit", "content": "diff", "extra": {"exit_status": "Submitted"}}
    found = trial(mini_swe_agent.read, tmp_path, document(called(1, "ls"), result(1, 2), called(2, "x"), exit_message))
    assert found.results() == [("<returncode>2</returncode>", True), ("[no result recorded]", False)]
    turn = found.trace.turns[0]
    assert (turn.fidelity, turn.source_model, found.trace.source.version) == ("exact", "gpt-x", "2.2.7")
    assert found.report.skipped["exit"] == 1


def test_a_response_that_could_not_be_parsed_is_a_turn_that_nobody_sees(tmp_path: Path) -> None:
    extra = {"interrupt_type": "FormatError", "response": response(1, "", name="python")}
    complaint = {"role": "user", "content": "Unknown tool 'python'.", "extra": extra}
    found = trial(mini_swe_agent.read, tmp_path, document(complaint, called(2, "ls"), result(2, 0), called(3, "x")))
    assert len(found.trace.turns) == 3
    assert found.texts(1) == ["Fix.", "Unknown tool 'python'."]
    assert found.texts(2) == ["Fix.", "Unknown tool 'python'.", "", "<returncode>0</returncode>"]
    assert found.results()[0] == ("Unknown tool 'python'.", True)


def test_text_of_a_response_without_an_action_is_kept(tmp_path: Path) -> None:
    extra = {"interrupt_type": "FormatError", "model_response": "I am done."}
    complaint = {"role": "user", "content": "Expected exactly 1 action.", "extra": extra}
    found = trial(mini_swe_agent.read, tmp_path, document(complaint, called(2, "ls")))
    assert found.actions()[0] == "I am done."
    assert found.texts(1) == ["Fix.", "Expected exactly 1 action."]


def test_responses_api(tmp_path: Path) -> None:
    output = [
        {"type": "reasoning", "summary": [{"text": "hm"}]},
        {"type": "message", "content": [{"type": "output_text", "text": "Look."}]},
        {"type": "function_call", "call_id": "k1", "name": "bash", "arguments": '{"command": "ls"}'},
        {"type": "function_call", "call_id": "k2", "name": "bash", "arguments": '{"command": "pwd"}'},
    ]
    answers = [
        {"type": "function_call_output", "call_id": "k2", "output": "/x", "extra": {"returncode": 0}},
        {"type": "function_call_output", "call_id": "k1", "output": "a", "extra": {"returncode": 1}},
    ]
    first = {"object": "response", "id": "r", "model": "m", "output": output}
    found = trial(mini_swe_agent.read, tmp_path, document(first, *answers))
    assert len(found.trace.turns) == 1
    assert found.trace.turns[0].thinking == "hm"
    assert found.results() == [("a", True), ("/x", False)]


def test_dataset_rows(tmp_path: Path) -> None:
    submit = {"role": "assistant", "content": "Done.\n\n<function=submit>\n</function>"}
    row = {"messages": [*START, bash("a", "ls"), observed(0, ""), submit], "instance_id": "i", "model": "qwen-x"}
    assert mini_swe_agent.recognises(row)
    found = trial(mini_swe_agent.read, tmp_path, [{**row, "verified": True}, {**row, "instance_id": "j"}])
    assert [trace.outcome for trace in found.traces] == [1.0, None]
    assert found.traces[0].state(1)["student_action"].endswith('{"arguments":{},"name":"submit"}</tool_call>')
    assert found.traces[0].turns[0].family == "qwen"


def test_a_response_served_twice_from_a_cache_is_two_turns(tmp_path: Path) -> None:
    found = trial(mini_swe_agent.read, tmp_path, document(called(1, "ls"), result(1, 0), called(1, "ls"), result(1, 0)))
    assert len(found.trace.turns) == 2
    assert len(found.results()) == 2
