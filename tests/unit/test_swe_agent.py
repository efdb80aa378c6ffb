"""SWE-agent, SWE-smith: one rule per test, on hand-written files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from composer_replication.ingestion import InputFile, ReadingReport, detect_format
from composer_replication.ingestion.readers import swe_agent, swe_smith
from composer_replication.records import CLEARED_RESULT

from .reading_trials import Trial, trial

Row = dict[str, Any]


def said(role: str, content: object, **more: object) -> Row:
    return {"role": role, "content": content, "agent": "main", **more}


def acted(thought: str, action: str, **more: object) -> Row:
    return said("assistant", f"{thought}\n\n```\n{action}\n```", thought=f"{thought}\n\n", action=f"{action}\n", **more)


def called(text: str, call_id: str, command: str) -> Row:
    function = {"name": "bash", "arguments": json.dumps({"command": command})}
    call = {"id": call_id, "type": "function", "function": function}
    return said("assistant", text, thought=text, action=command, tool_calls=[call])


def step(response: str, action: str, **more: object) -> Row:
    return {"action": action, "observation": "", "response": response, "thought": response, "state": {}, **more}


def run(*history: Row, steps: tuple[Row, ...] = (), **more: object) -> Row:
    start = [said("system", "You are SWE."), said("user", "Fix the bug.")]
    return {"environment": "main", "trajectory": list(steps), "history": [*start, *history], "info": {}, **more}


def test_actions_of_0x_become_bash_calls_without_their_block(tmp_path: Path) -> None:
    found = trial(swe_agent.read, tmp_path, run(acted("Look.", "ls"), said("user", "a.py"), acted("Done.", "submit")))
    assert found.actions() == [
        'Look.\n<tool_call>{"arguments":{"command":"ls"},"name":"bash"}</tool_call>',
        'Done.\n<tool_call>{"arguments":{"command":"submit"},"name":"bash"}</tool_call>',
    ]
    assert found.roles(1) == "suat"
    assert found.results() == [("a.py", False), ("[no result recorded]", False)]
    assert found.trace.messages[0]["content"] == "You are SWE."
    assert found.trace.turns[0].fidelity == "reconstructed"


def test_tool_calls_of_1x_are_exact_and_answered_by_id(tmp_path: Path) -> None:
    config = json.dumps({"agent": {"model": {"name": "claude-x"}}})
    value = run(
        called("Look.", "c1", "ls"),
        said("tool", [{"type": "text", "text": "a.py"}], tool_call_ids=["c1"]),
        called("", "c1", "cat a.py"),
        said("tool", "text", tool_call_ids=["c1"]),
        info={"swe_agent_version": "1.0.1"},
        replay_config=config,
        environment="org__repo-1",
    )
    found = trial(swe_agent.read, tmp_path, value)
    assert found.results() == [("a.py", False), ("text", False)]
    turn = found.trace.turns[0]
    assert (turn.fidelity, turn.source_model, found.trace.source.version) == ("exact", "claude-x", "1.0.1")
    assert found.trace.task_id == "org__repo-1"


def test_demonstrations_are_context_and_subagents_are_left_out(tmp_path: Path) -> None:
    value = run(
        said("user", "Here is a demonstration.", is_demo=True),
        said("assistant", "I would open it.", is_demo=True, action="open", tool_calls=[{}]),
        {**acted("sub", "ls"), "agent": "sub"},
        acted("Look.", "ls"),
    )
    found = trial(swe_agent.read, tmp_path, value)
    assert len(found.trace.turns) == 1
    assert found.texts(0) == ["Fix the bug.", "Here is a demonstration.", "I would open it.\nopen"]
    assert found.report.skipped["subagent"] == 1


def test_what_a_history_processor_elided_is_cleared_for_the_turns_that_did_not_see_it(tmp_path: Path) -> None:
    history = [
        called("one", "c1", "ls"),
        said("tool", "long text", tool_call_ids=["c1"]),
        called("two", "c2", "ls"),
        said("tool", "more", tool_call_ids=["c2"]),
        called("three", "c3", "ls"),
    ]
    start = [said("system", "You are SWE."), said("user", "Fix the bug.")]
    elided = [*start, history[0], said("tool", "Old environment output: (1 lines omitted)"), *history[2:4]]
    steps = (
        step("one", "ls", query=start),
        step("two", "ls", query=[*start, *history[:2]]),
        step("three", "ls", query=elided),
    )
    found = trial(swe_agent.read, tmp_path, run(*history, steps=steps, info={"swe_agent_version": "1.1.0"}))
    assert "long text" in found.texts(1)
    assert found.texts(2) == ["Fix the bug.", "one", CLEARED_RESULT, "two", "more"]
    assert found.trace.turns[0].fidelity == "reconstructed"


def test_messages_of_1_0_show_the_prompt_of_the_next_step(tmp_path: Path) -> None:
    history = [called("one", "c1", "ls"), said("tool", "long", tool_call_ids=["c1"]), called("two", "c2", "ls")]
    start = [said("system", "You are SWE."), said("user", "Fix the bug.")]
    seen = [*start, history[0], said("tool", "Old environment output: (1 lines omitted)")]
    found = trial(swe_agent.read, tmp_path, run(*history, steps=(step("one", "ls", messages=seen), step("two", "ls"))))
    assert found.texts(1)[-1] == CLEARED_RESULT


def test_a_rejected_attempt_is_a_turn_that_only_its_retry_sees(tmp_path: Path) -> None:
    start = [said("system", "You are SWE."), said("user", "Fix the bug.")]
    steps = (
        step("vim", "vim", query=start),
        step("nano", "nano", query=[*start, said("assistant", "vim"), said("user", "vim is blocked")]),
        step("ls", "ls", query=[*start, said("assistant", "nano"), said("user", "nano is blocked")]),
        step("cat", "cat", query=[]),
    )
    history = [called("ls", "c1", "ls"), said("tool", "a.py", tool_call_ids=["c1"]), called("cat", "c2", "cat")]
    found = trial(swe_agent.read, tmp_path, run(*history, steps=steps))
    assert len(found.trace.turns) == 4
    assert found.texts(1) == ["Fix the bug.", "", "vim is blocked", "vim is blocked"]
    assert found.texts(2) == ["Fix the bug.", "", "nano is blocked", "nano is blocked"]
    assert found.texts(3) == ["Fix the bug.", "ls", "a.py"]
    assert found.results()[:2] == [("vim is blocked", True), ("nano is blocked", True)]


def test_the_words_of_the_harness_at_its_exit_are_no_turn(tmp_path: Path) -> None:
    value = run(acted("Look.", "ls"), said("user", "a"), said("assistant", "Exit due to cost limit", action=""))
    found = trial(swe_agent.read, tmp_path, value)
    assert len(found.trace.turns) == 1
    assert found.report.skipped["harness_exit"] == 1


def test_each_attempt_of_a_retry_agent_is_a_session(tmp_path: Path) -> None:
    attempts = [run(acted("One.", "ls")), run(acted("Two.", "ls"))]
    found = trial(swe_agent.read, tmp_path, {**attempts[0], "attempts": attempts})
    assert len({trace.trace_id for trace in found.traces}) == 2


def test_rows_of_the_nebius_dataset(tmp_path: Path) -> None:
    messages = [
        {"role": "system", "system_prompt": "You are SWE.", "text": None},
        {"role": "user", "system_prompt": None, "text": "Fix."},
        {"role": "ai", "system_prompt": None, "text": "See\n```python\nx\n```\nthen\n```\nls\n```"},
        {"role": "user", "system_prompt": None, "text": "a.py"},
        {"role": "ai", "system_prompt": None, "text": "no command"},
    ]
    row = {"instance_id": "i", "model_name": "m", "target": False, "trajectory": messages}
    found = trial(swe_agent.read, tmp_path, [row, {**row, "instance_id": "j"}])
    assert [(trace.task_id, trace.outcome) for trace in found.traces] == [("i", 0.0), ("j", 0.0)]
    assert found.traces[0].state(0)["student_action"].startswith("See\n```python\nx\n```\nthen\n<tool_call>")
    assert found.traces[0].history(1)[-1]["content"] == "a.py"


XML = (
    "Look.\n\n<function=str_replace_editor>\n<parameter=command>create</parameter>\n"
    "<parameter=file_text>a </function> b\n</parameter>\n</function>"
)


@pytest.mark.parametrize("as_text", [False, True])
def test_swe_smith_tags_become_calls(tmp_path: Path, as_text: bool) -> None:
    messages = [said("system", "S"), said("user", "Fix."), said("assistant", XML), said("user", "OBSERVATION:\nok")]
    content = json.dumps(messages) if as_text else messages
    row = {"messages": content, "instance_id": "i", "resolved": True, "model": "m", "traj_id": "i.1"}
    assert swe_smith.recognises(row)
    found = trial(swe_smith.read, tmp_path, json.dumps(row) + "\n" + json.dumps(row)[:40], "rows.jsonl")
    call = found.trace.messages[2]["tool_calls"][0]["function"]
    assert (call["name"], json.loads(call["arguments"])) == (
        "str_replace_editor",
        {"command": "create", "file_text": "a </function> b"},
    )
    assert found.actions()[0].startswith("Look.\n<tool_call>")
    assert found.results() == [("OBSERVATION:\nok", False)]
    assert (found.trace.outcome, found.trace.task_id) == (1.0, "i")
    assert found.report.skipped["torn_last_line"] == 1


def test_a_table_of_swe_smith_for_fine_tuning_is_no_plain_chat(tmp_path: Path) -> None:
    """`ft_xml_*.jsonl`: a command without output is answered by a sentence without the word OBSERVATION."""
    silent = "Your command ran successfully and did not produce any output"
    ask, act = said("user", "Fix."), said("assistant", XML)
    row = {"messages": [ask, act, said("user", "OBSERVATION:\nok"), act, said("user", silent)], "instance_id": "i"}
    path = tmp_path / "ft_xml.jsonl"
    path.write_text(json.dumps(row) + "\n")
    assert detect_format(InputFile(path, ReadingReport())) == "swe_smith"
    found = Trial(swe_smith.read, path)
    assert [text for text, _ in found.results()] == ["OBSERVATION:\nok", silent]
    assert {turn.fidelity for turn in found.trace.turns} == {"reconstructed"}


def test_swe_smith_ticks_and_tool_styles(tmp_path: Path) -> None:
    base = {"instance_id": "i", "resolved": False, "traj_id": "i.1"}
    ticks = {**base, "messages": [said("user", "Fix."), said("assistant", "Go\n```\nls\n```"), said("user", "out")]}
    tool = {
        **base,
        "messages": [
            said("system", "S"),
            said("user", "Fix."),
            called("Go", "c", "ls"),
            said("tool", "out", tool_call_ids=["c"]),
        ],
    }
    found = trial(swe_smith.read, tmp_path, [ticks, tool])
    assert len({trace.trace_id for trace in found.traces}) == 2
    assert [trace.turns[0].fidelity for trace in found.traces] == ["reconstructed", "exact"]
    assert found.traces[0].state(0)["student_action"] == found.traces[1].state(0)["student_action"]


@pytest.mark.parametrize("text", ["<function=a>", "<function=a><parameter=b>x</function>", "</function>", "```\nls"])
def test_what_cannot_be_parsed_stays_text(tmp_path: Path, text: str) -> None:
    row = {"messages": [said("user", "Fix."), said("assistant", text)], "instance_id": "i", "traj_id": "t"}
    found = trial(swe_smith.read, tmp_path, row)
    assert found.actions() == [text]
