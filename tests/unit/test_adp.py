"""Agent Data Protocol: turns between observations, calls made of code, and what the details tell."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from composer_replication.ingestion.readers import adp

from .reading_trials import trial

Row = dict[str, Any]


def saw(text: str, source: str = "user") -> Row:
    return {"class_": "text_observation", "content": text, "name": None, "source": source}


def used(function: str, description: str = "", **kwargs: object) -> Row:
    return {"class_": "api_action", "function": function, "kwargs": kwargs, "description": description}


def ran(language: str, code: str) -> Row:
    return {"class_": "code_action", "language": language, "content": code, "description": None}


def told(text: str, description: str | None = None) -> Row:
    return {"class_": "message_action", "content": text, "description": description}


def row(*content: object, **details: str) -> Row:
    return {"id": "t", "content": list(content), "details": details}


def test_calls_and_their_results(tmp_path: Path) -> None:
    trajectory = row(saw("do it"), ran("bash", "ls"), saw("out"), ran("python", "1"), saw("1", "environment"),
                     ran("ruby", "p 1"), saw("1"), used("finish", "Bye.", ok=True))  # fmt: skip
    found = trial(adp.read, tmp_path, [trajectory])
    names = [call["function"]["name"] for message in found.trace.messages for call in message.get("tool_calls", [])]
    assert names == ["execute_bash", "execute_ipython_cell", "execute_ruby", "finish"]
    assert found.roles(3) == "suatatat"
    assert found.trace.turns[0].fidelity == "partial"
    assert found.actions()[3] == 'Bye.\n<tool_call>{"arguments":{"ok":true},"name":"finish"}</tool_call>'


def test_actions_without_an_observation_between_them_are_one_turn(tmp_path: Path) -> None:
    trajectory = row(saw("x"), told("Both."), used("a"), used("b"), saw("1"), saw("2"), saw("3"), told("Done.", "So"))
    found = trial(adp.read, tmp_path, [trajectory])
    assert len(found.trace.turns) == 2
    assert found.results() == [("1", False), ("2", False)]
    assert found.texts(1)[-1] == "3"
    assert found.actions()[1] == "So\n\nDone."


def test_observations_that_are_not_text(tmp_path: Path) -> None:
    page = {"class_": "web_observation", "url": "http://x", "html": "<p>", "axtree": "tree", "image_observation": {}}
    image = {"class_": "image_observation", "content": "a.png", "source": "environment"}
    found = trial(adp.read, tmp_path, [row(saw("go"), saw("Understood.", "agent"), image, used("open"), page)])
    assert found.roles(0) == "suau"
    assert found.texts(0)[2].startswith("[image ")
    assert found.results()[0][0].startswith("http://x\ntree\n[image ")


def test_details(tmp_path: Path) -> None:
    tools = json.dumps([{"type": "function", "function": {"name": "f", "parameters": {"properties": {"a": None}}}}])
    details = {"resolved": "False", "tools": tools, "run_id": "gpt-4o-2024_maxiter_50_N", "instance_id": "i"}
    trace = trial(adp.read, tmp_path, [row(saw("x"), told("y"), **details)]).trace
    assert (trace.outcome, trace.task_id, trace.turns[0].source_model) == (0.0, "i", "gpt-4o-2024")
    assert trace.tools == ({"type": "function", "function": {"name": "f", "parameters": {"properties": {}}}},)


def test_rows_lines_and_damage(tmp_path: Path) -> None:
    rows = [row(saw("x"), told("y")), row(saw("x"), told("z")), row(saw("x")), row(7, {"class_": ["x"]}, told("w"))]
    text = "".join(json.dumps(item) + "\n" for item in rows)
    found = trial(adp.read, tmp_path, text + '{"id": ', "std.jsonl")
    assert len({trace.trace_id for trace in found.traces}) == 3
    assert found.report.skipped["session_without_turns"] == 1
    assert found.report.skipped["torn_last_line"] == 1
    assert sum(found.report.unknown["unknown"].values()) == 2


def test_recognises_only_its_own() -> None:
    assert adp.recognises(row(saw("x")))
    for other in (None, [], {}, {"content": "x"}, {"content": [{"class_": "x"}]}, {"content": [{"class_": {}}]}):
        assert not adp.recognises(other)
