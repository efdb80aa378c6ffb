"""Policies that need no model, to see that tasks and grading work: one hands in the solution, one nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from composer_replication.records import JsonObject, Message

from ..tasks.task import TaskFolder
from .definition import solving_block
from .turns import Reply, WireCall

MOST_TRIES = 100


class Scripted:
    """Says the given replies one after the other, whatever it hears; after the last one it submits."""

    def __init__(self, name: str, replies: Sequence[Reply]) -> None:
        self.name, self._replies = name, replies

    def reply(self, messages: Sequence[Message], tools: Sequence[JsonObject], asked: str) -> Reply:
        turn = sum(message["role"] == "assistant" for message in messages)
        return self._replies[turn] if turn < len(self._replies) else Reply("", (WireCall("submit", "{}"),))


def gold(task: TaskFolder) -> Scripted:
    """Writes the files of the solution; it alone reads what no agent may see."""
    files = sorted(path for path in task.gold.rglob("*") if path.is_file())
    written = [
        {"path": path.relative_to(task.gold).as_posix(), "content": path.read_text(encoding="utf-8")} for path in files
    ]
    return Scripted("gold", [Reply("", (WireCall("write_file", json.dumps(each)),)) for each in written])


def nop(task: TaskFolder) -> Scripted:
    return Scripted("nop", ())


def in_one_block(name: str, task: TaskFolder) -> Scripted:
    """The same two where one code block is the answer."""
    said = f"```python\n{solving_block(task)}\n```" if name == "gold" else "I have no answer."
    return Scripted(name, [Reply(said)] * MOST_TRIES)


SCRIPTED: dict[str, Callable[[TaskFolder], Scripted]] = {"gold": gold, "nop": nop}
