"""What the agent is told before its first turn."""

from __future__ import annotations

from composer_replication.records import Message, canonical_json

from ..tasks.task import CodeTask
from .tools import TOOL_SCHEMAS

SYSTEM = """You are working on a Python repository in the current folder. There is no network.
Use the tools to look around, change files and run the tests. Call `submit` when the work is done: it is then checked
with tests that you cannot see. Tests and their configuration are not part of the work, unless the task says so."""

CALL_FORMAT = """Call tools, each as one JSON object between two marks. Several calls of a turn run in order. End your
turn after the last one; you then read what they answered:
<tool_call>
{"name": "read_file", "arguments": {"path": "README.md"}}
</tool_call>
The tools:
"""


def opening(code_task: CodeTask, *, calls_as_text: bool = False) -> list[Message]:
    """What the first turn answers. `calls_as_text` is for models without a tool format of their own."""
    system = SYSTEM
    if calls_as_text:
        system += "\n\n" + CALL_FORMAT + "\n".join(canonical_json(schema["function"]) for schema in TOOL_SCHEMAS)
    return [{"role": "system", "content": system}, {"role": "user", "content": code_task.task.statement}]
