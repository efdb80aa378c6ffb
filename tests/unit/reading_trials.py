"""Reads hand-written files with one reader and holds every session to what all traces must be."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from composer_replication.ingestion.reading import InputFile, ReadingReport
from composer_replication.ingestion.session import Session
from composer_replication.records import Message, Trace

Row = dict[str, Any]
Read = Callable[[InputFile], Iterator[Session]]
ROLE_LETTERS = {"system": "s", "user": "u", "assistant": "a", "tool": "t"}
JUNK: list[Any] = [
    None, 0, -1, 2.5, True, "", "x", [], {}, [[]], ["a", None, {"text": 5}], {"type": ["x"]}, [{"type": {}}],
]  # fmt: skip


class Trial:
    """The traces of one file and the report about it."""

    def __init__(self, read: Read, path: Path) -> None:
        self.report = ReadingReport()
        self.traces = [checked(session) for session in read(InputFile(path, self.report, redact=False))]

    @property
    def trace(self) -> Trace:
        (trace,) = self.traces
        return trace

    def roles(self, turn: int) -> str:
        return roles(self.trace.history(turn))

    def texts(self, turn: int) -> list[str]:
        """What the actor saw before a turn, without the system prompt."""
        return contents(self.trace.history(turn))[1:]

    def actions(self) -> list[str]:
        return [state["student_action"] for state in self.trace.states()]

    def results(self) -> list[tuple[str, bool]]:
        tools = [message for message in self.trace.messages if message["role"] == "tool"]
        return list(zip(contents(tools), failures(self.trace), strict=True))


def trial(read: Read, folder: Path, value: Any, name: str = "run.json") -> Trial:
    path = folder / name
    path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
    return Trial(read, path)


def read_log(read: Read, path: Path, rows: Sequence[object], end: str = "\n") -> Trial:
    return trial(read, path.parent, "\n".join(map(json.dumps, rows)) + end, path.name)


def survives(read: Read, recognises: Callable[[Any], bool], path: Path, rows: Sequence[object]) -> None:
    """Whatever is wrong with the rows, nothing is raised."""
    read_log(read, path, rows)
    for value in rows:
        recognises(value)


def checked(session: Session) -> Trace:
    trace = session.trace()
    assert b"".join(session.encoded()) == trace.model_dump_json().encode() + b"\n"
    for number, turn in enumerate(trace.turns):
        assert_valid([*trace.history(number), *trace.messages[turn.start : turn.end]])
    return trace


def assert_valid(messages: Sequence[Message]) -> None:
    """Each tool message answers the next call of the assistant message before it; no call stays open."""
    waiting: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            assert message["tool_call_id"] == waiting.pop(0)
        else:
            assert not waiting
            waiting = [call["id"] for call in message.get("tool_calls", [])]
    assert not waiting


def roles(messages: Sequence[Message]) -> str:
    return "".join(ROLE_LETTERS[message["role"]] for message in messages)


def contents(messages: Sequence[Message]) -> list[str]:
    return [message["content"] for message in messages]


def failures(trace: Trace) -> list[bool]:
    return [bool(message.get("is_error")) for message in trace.messages if message["role"] == "tool"]


def damaged(rows: Sequence[Row], seed: int) -> list[Any]:
    """The same rows with a few fields removed or replaced by values of other types."""
    rng = random.Random(seed)
    copy: list[Any] = json.loads(json.dumps(rows))
    for _ in range(rng.randrange(1, 12)):
        at = rng.randrange(len(copy))
        places = list(_places(copy[at]))
        if places:
            holder, key = rng.choice(places)
            holder[key] = json.loads(json.dumps(rng.choice(JUNK)))
    return copy


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    for key, item in list(
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else []
    ):
        yield value, key
        yield from _places(item)
