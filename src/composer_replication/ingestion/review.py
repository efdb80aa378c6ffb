"""Where secrets and names were replaced in stored traces, for a person to check before anything is sent.

Reads traces, gives places. The secret itself is not in the run: what is shown is the line with the placeholder in it.
A session that held such placeholders before it was read shows them too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple, cast

from composer_replication.records import Message, Trace

SHOWN_CHARS = 40
_REPLACED = re.compile(
    r"<SECRET:(?P<secret>[a-z0-9-]+):\d+>"
    r"|(?P<email>\buser\d+@example\.com\b)"
    r"|(?<=/home/|Users/)(?P<home>user\d+)\b|(?<=Users\\)(?P<windows>user\d+)\b|(?<=~)(?P<tilde>user\d+)(?=/)"
)


class ReplacedPlace(NamedTuple):
    file: str
    trace_id: str
    turn: int | None
    """The turn whose answer or tool result it is; None before the first."""
    where: str
    """`user`, `assistant`, `thinking`, `tool`, `system`, `tools`, or an argument: `Bash.command`."""
    line: int
    kind: str
    shown: str


def replaced_places(trace: Trace) -> Iterator[ReplacedPlace]:
    for turn, where, text in _texts(trace):
        for number, line in enumerate(text.split("\n"), start=1):
            for match in _REPLACED.finditer(line):
                kind = match["secret"] or ("email" if match["email"] else "home-directory")
                shown = line[max(0, match.start() - SHOWN_CHARS) : match.end() + SHOWN_CHARS].strip()
                yield ReplacedPlace(trace.source.file or "", trace.trace_id, turn, where, number, kind, shown)


def _texts(trace: Trace) -> Iterator[tuple[int | None, str, str]]:
    """Turn, place and text of every string that a teacher could be sent."""
    yield from ((None, "tools", text) for _, text in _strings("tools", list(trace.tools)))
    turns = {index: number for number, turn in enumerate(trace.turns) for index in range(turn.start, turn.end)}
    for index, message in enumerate(trace.messages):
        turn = turns.get(index)
        if turn is not None and index == trace.turns[turn].start:
            yield turn, "thinking", trace.turns[turn].thinking
        yield from ((turn, where, text) for where, text in _of_message(message))


def _of_message(message: Message) -> Iterator[tuple[str, str]]:
    yield message["role"], message.get("content") or ""
    for call in message.get("tool_calls", []):
        name, arguments = call["function"]["name"], call["function"]["arguments"]
        try:
            yield from _strings(name, json.loads(arguments))
        except ValueError:
            yield name, arguments


def _strings(path: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, list):
        for item in cast("list[Any]", value):
            yield from _strings(path, item)
    elif isinstance(value, dict):
        for key, item in cast("dict[str, Any]", value).items():
            yield path, key
            yield from _strings(f"{path}.{key}", item)
