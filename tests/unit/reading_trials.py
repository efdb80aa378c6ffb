"""Reads hand-written files with one reader and holds every session to what all traces must be."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from composer_replication.ingestion.reading import InputFile, Report
from composer_replication.ingestion.session import Session
from composer_replication.records import Message, Trace

ROLE_LETTERS = {"system": "s", "user": "u", "assistant": "a", "tool": "t"}
Read = Callable[[InputFile], Iterator[Session]]


class Trial:
    """The traces of one file and the report about it."""

    def __init__(self, read: Read, path: Path) -> None:
        self.report = Report()
        sessions = list(read(InputFile(path, self.report, redact=False)))
        self.traces = [checked(session) for session in sessions]

    @property
    def trace(self) -> Trace:
        (trace,) = self.traces
        return trace

    def roles(self, turn: int) -> str:
        return "".join(ROLE_LETTERS[message["role"]] for message in self.trace.history(turn))

    def texts(self, turn: int) -> list[str]:
        """What the actor saw before a turn, without the system prompt."""
        return [message["content"] for message in self.trace.history(turn)[1:]]

    def actions(self) -> list[str]:
        return [state["student_action"] for state in self.trace.states()]

    def results(self) -> list[tuple[str, bool]]:
        tools = [message for message in self.trace.messages if message["role"] == "tool"]
        return [(message["content"], message.get("is_error", False)) for message in tools]


def trial(read: Read, folder: Path, value: Any, name: str = "run.json") -> Trial:
    path = folder / name
    path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
    return Trial(read, path)


def checked(session: Session) -> Trace:
    trace = session.trace()
    assert b"".join(session.encoded()) == trace.model_dump_json().encode() + b"\n"
    for state in trace.states():
        assert_conversation(state["messages"])
    return trace


def assert_conversation(messages: list[Message]) -> None:
    """Every call is answered right after it, and every answer has its call."""
    waiting: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            assert message["tool_call_id"] == waiting.pop(0)
        else:
            assert not waiting
            waiting = [call["id"] for call in message.get("tool_calls", [])]
    assert not waiting
