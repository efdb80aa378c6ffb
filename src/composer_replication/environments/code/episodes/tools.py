"""What the agent is told, and its six tools: their schemas, and whether a call fits them. None starts over.

A call that does not fit is answered with one of a few fixed sentences, which the detectors of `sites` know.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from composer_replication.records import JsonObject, Message, canonical_json

from ...untrusted import encodable, read_json
from ..tasks.task import CodeTask

JSON_TYPES: dict[str, type | tuple[type, ...]] = {"string": str, "integer": int, "array": list}
ARTICLE = {"string": "a string", "integer": "an integer", "array": "an array of strings"}
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


class ToolError(Exception):
    """What the agent reads when a call did not do its work."""


def _function(name: str, description: str, required: tuple[str, ...] = (), **properties: JsonObject) -> JsonObject:
    parameters = {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


def _string(description: str) -> JsonObject:
    return {"type": "string", "description": description}


_PATH = _string("Path of the file, relative to the repository.")

TOOL_SCHEMAS: tuple[JsonObject, ...] = (
    _function(
        "bash",
        "Run a command in the repository and return its output. Nothing it starts outlives it.",
        ("command",),
        command=_string("The command, as bash reads it."),
    ),
    _function(
        "read_file",
        "Read a file, or some lines of it.",
        ("path",),
        path=_PATH,
        start={"type": "integer", "description": "First line, from 1. Default 1."},
        lines={"type": "integer", "description": "How many lines. Default 400."},
    ),
    _function(
        "write_file",
        "Write a file, in place of what it holds. Folders are made.",
        ("path", "content"),
        path=_PATH,
        content=_string("The whole new content."),
    ),
    _function(
        "edit_file",
        "Replace one piece of text in a file. The old text must be in the file exactly once.",
        ("path", "old", "new"),
        path=_PATH,
        old=_string("The text to replace, exactly as it is in the file."),
        new=_string("The text to put in its place."),
    ),
    _function(
        "run_tests",
        "Run the tests of the repository with pytest.",
        ids={
            "type": "array",
            "items": {"type": "string"},
            "description": "Test ids or files to run, as pytest writes them. Default: all.",
        },
    ),
    _function("submit", "Hand in the work. This ends the task; nothing can be changed after it."),
)
TOOL_NAMES: tuple[str, ...] = tuple(schema["function"]["name"] for schema in TOOL_SCHEMAS)
_PARAMETERS: dict[str, JsonObject] = {
    schema["function"]["name"]: schema["function"]["parameters"] for schema in TOOL_SCHEMAS
}


def check_call(name: str, arguments: Mapping[str, Any]) -> None:
    """Raise a `ToolError` for a call that does not fit its schema."""
    if name not in _PARAMETERS:
        raise ToolError(f"no such tool: {name[:80]}. The tools are {', '.join(TOOL_NAMES)}.")
    properties: JsonObject = _PARAMETERS[name]["properties"]
    for required in _PARAMETERS[name]["required"]:
        if required not in arguments:
            raise ToolError(f"Missing required argument `{required}` of {name}.")
    for given, value in arguments.items():
        if given not in properties:
            takes = ", ".join(properties) or "none"
            raise ToolError(f"unexpected keyword argument `{given[:80]}`: {name} takes {takes}.")
        kind: str = properties[given]["type"]
        if not _is_a(kind, value):
            raise ToolError(f"`{given}` of {name} must be {ARTICLE[kind]}.")
        if encodable(str(value)) != str(value):
            raise ToolError(f"Invalid arguments: `{given}` of {name} holds half a surrogate pair.")


def read_arguments(name: str, text: str) -> JsonObject:
    """The arguments of a call as they stand on the wire."""
    try:
        found: Any = read_json(text) if text.strip() else {}
    except ValueError as error:
        raise ToolError(f"Your response could not be parsed: the arguments of {name[:80]} are {error}.") from error
    if not isinstance(found, dict):
        raise ToolError(f"Your response could not be parsed: the arguments of {name[:80]} are no JSON object.")
    return cast(JsonObject, found)


def _is_a(kind: str, value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, JSON_TYPES[kind]):
        return False
    return kind != "array" or all(isinstance(item, str) for item in cast(list[Any], value))


def opening(code_task: CodeTask, *, calls_as_text: bool = False) -> list[Message]:
    """What the first turn answers. `calls_as_text` is for models without a tool format of their own."""
    system = SYSTEM
    if calls_as_text:
        system += "\n\n" + CALL_FORMAT + "\n".join(canonical_json(schema["function"]) for schema in TOOL_SCHEMAS)
    return [{"role": "system", "content": system}, {"role": "user", "content": code_task.task.statement}]
