"""ATIF trajectories: one rule per test, on hand-written files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from composer_replication.ingestion.readers import atif

from .reading_trials import Trial, trial

Row = dict[str, Any]


def agent(message: object = "", *calls: Row, results: tuple[Row, ...] = (), **more: object) -> Row:
    return {
        "source": "agent",
        "message": message,
        "tool_calls": list(calls) or None,
        "observation": {"results": list(results)},
        **more,
    }


def use(call_id: str, name: str = "bash", **arguments: object) -> Row:
    return {"tool_call_id": call_id, "function_name": name, "arguments": arguments}


def result(content: object, call_id: str | None = None, **more: object) -> Row:
    return {"source_call_id": call_id, "content": content, **more}


def trajectory(*steps: Row, **more: object) -> Row:
    numbered = [{"step_id": number, **step} for number, step in enumerate(steps, 1)]
    about = {"name": "codex", "version": "1.2", "model_name": "gpt-x"}
    return {"schema_version": "ATIF-v1.7", "session_id": "s", "agent": about, "steps": numbered, **more}


USER = {"source": "user", "message": "Fix."}


@pytest.fixture
def read(tmp_path: Path) -> Any:
    def run(*steps: Row, **more: object) -> Trial:
        value = trajectory(*steps, **more)
        assert atif.recognises(value)
        return trial(atif.read, tmp_path, value)

    return run


def test_one_step_is_one_turn_with_its_results_by_id(read: Any) -> None:
    step = agent(
        "Look.",
        use("a", command="ls"),
        use("b", command="pwd"),
        results=(result("/x", "b"), result([{"type": "text", "text": "a.py"}], "a")),
        reasoning_content="hm",
        model_name="gpt-y",
    )
    found = read({"source": "system", "message": "S"}, USER, step)
    assert found.roles(0) == "su"
    assert found.results() == [("a.py", False), ("/x", False)]
    turn = found.trace.turns[0]
    assert (turn.thinking, turn.source_model, found.trace.source.agent) == ("hm", "gpt-y", "codex")


def test_results_without_ids_go_by_place_or_to_the_last_call(read: Any) -> None:
    calls = (use("a"), use("b"))
    found = read(
        USER,
        agent("", *calls, results=(result("1"), result("2"))),
        agent("", use("c"), use("d"), results=(result("screen"),)),
        agent("text only", results=(result("said"),)),
        agent("end"),
    )
    assert [text for text, _ in found.results()] == ["1", "2", "[no result recorded]", "screen"]
    assert found.texts(3)[-2:] == ["text only", "said"]


@pytest.mark.parametrize(
    ("on_result", "on_step"),
    [
        ({"is_error": True}, {}),
        ({"exit_code": 2}, {}),
        ({}, {"tool_result_is_error": True}),
        ({}, {"tool_metadata": {"exit_code": 1}}),
        ({}, {"tool_call_details": {"a": {"metadata": {"exit_code": 1}}}}),
    ],
)
def test_errors_are_what_converters_put_into_extra(read: Any, on_result: Row, on_step: Row) -> None:
    found = read(USER, agent("", use("a"), results=(result("Error!", "a", extra=on_result),), extra=on_step))
    assert found.results() == [("Error!", True)]
    assert read(USER, agent("", use("a"), results=(result("Error!", "a"),))).results() == [("Error!", False)]


def test_copied_steps_and_steps_without_a_model_are_history_only(read: Any) -> None:
    found = read(
        {**USER, "is_copied_context": True},
        agent("old", use("a"), results=(result("x", "a"),), is_copied_context=True),
        agent("dispatch", use("b"), results=(result("y", "b"),), llm_call_count=0),
        agent("new", llm_call_count=1),
    )
    assert found.roles(0) == "suatat"
    assert len(found.trace.turns) == 1
    assert found.report.skipped == {"copied_context": 1, "step_without_model_call": 1}


def test_several_model_calls_in_one_step_make_the_trace_partial(read: Any) -> None:
    assert read(USER, agent("x", llm_call_count=3)).trace.turns[0].fidelity == "partial"


def test_a_compaction_restarts_the_history_and_subagents_are_left_out(read: Any) -> None:
    reference = {"results": [{"subagent_trajectory_ref": [{"session_id": "x"}]}]}
    compaction = {
        "source": "system",
        "message": "Summarised.",
        "observation": reference,
        "extra": {"context_management": {"type": "compaction", "boundary": "replace"}},
    }
    found = read(USER, agent("one"), compaction, {"source": "user", "message": "Summary"}, agent("two"))
    assert found.texts(1) == ["Summary"]
    assert found.report.skipped == {"compaction_notice": 1, "subagent": 1}


def test_calls_that_are_only_text_become_calls(read: Any, tmp_path: Path) -> None:
    text = "Go.\n<function=bash>\n<parameter=command>ls</parameter>\n</function>"
    found = read(USER, agent(text, results=(result("a"),)))
    assert found.actions() == ['Go.\n<tool_call>{"arguments":{"command":"ls"},"name":"bash"}</tool_call>']
    value = trajectory(USER, agent('{"analysis": "A", "plan": "P", "commands": [{"keystrokes": "ls\\n"}]}'))
    value["agent"]["name"] = "terminus-2"
    found = trial(atif.read, tmp_path, value)
    assert found.actions() == [
        'A\nP\n<tool_call>{"arguments":{"keystrokes":"ls\\n"},"name":"bash_command"}</tool_call>'
    ]


def test_tools_task_and_reward_are_read_where_recorded(tmp_path: Path) -> None:
    tool = {"type": "function", "function": {"name": "bash", "parameters": {}}}
    value = trajectory(USER, agent("x"), extra={"task_id": "t", "reward": 0.5})
    value["agent"]["tool_definitions"] = [tool, {"type": "function"}]
    found = trial(atif.read, tmp_path, value)
    assert (found.trace.tools, found.trace.tools_inferred) == ((tool,), False)
    assert (found.trace.task_id, found.trace.outcome) == ("t", 0.5)


def test_a_continued_session_is_another_trace(tmp_path: Path) -> None:
    found = trial(atif.read, tmp_path, [trajectory(USER, agent("one")), trajectory(USER, agent("two"))])
    assert len({trace.trace_id for trace in found.traces}) == 2


def test_later_system_steps_are_context_and_unknown_sources_are_counted(read: Any) -> None:
    found = read(USER, {"source": "system", "message": "Note."}, {"source": "robot", "message": "?"}, agent("x"))
    assert found.texts(0) == ["Fix.", "Note."]
    assert found.report.unknown == {"ATIF-v1.7": {"source/robot": 1}}
