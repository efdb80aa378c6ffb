"""Rows of public data sets, and other agents' calls as ours: what the loaders of `public_sets` share.

Reads JSON, JSON lines and Parquet (with pyarrow, which is not installed by default). A call becomes one of our tools by
the names of its arguments, whatever its own tool is called; one that is none of them keeps its name and says little.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

from composer_replication.errors import UsageError
from composer_replication.records import JsonObject, Message, Source, ToolCall, Trace, Turn, canonical_json, content_id

COMMANDS = ("command", "cmd", "keystrokes", "script", "bash", "shell_command")
SOURCES = ("code", "python", "source")
PATHS = ("path", "file_path", "filepath", "filename", "file", "target_file")
CONTENTS = ("content", "contents", "file_text", "text", "new_content", "code")
OLD_TEXTS = ("old_str", "old_string", "old", "search", "old_content")
NEW_TEXTS = ("new_str", "new_string", "new", "replace", "replacement")
ROW_SUFFIXES = (".jsonl", ".json", ".parquet")


class Call(NamedTuple):
    """One tool call as a data set tells it."""

    tool: str
    arguments: Mapping[str, Any]
    output: str = ""


def rows_of(path: Path) -> Iterator[JsonObject]:
    """Of a file, or of all files below a folder, in the order of their names."""
    if path.is_dir():
        for each in sorted(path.rglob("*")):
            if each.suffix in ROW_SUFFIXES:
                yield from rows_of(each)
    elif path.suffix == ".parquet":
        yield from _parquet(path)
    elif path.suffix == ".jsonl":
        with path.open(encoding="utf-8") as lines:
            yield from (row for line in lines if line.strip() for row in as_rows(read_json(line, path)))
    elif path.suffix == ".json":
        yield from as_rows(read_json(path.read_text(encoding="utf-8"), path))


def as_rows(value: Any) -> list[JsonObject]:
    return [cast("JsonObject", row) for row in (value if isinstance(value, list) else [value]) if isinstance(row, dict)]


def objects(value: Any) -> list[JsonObject]:
    """The objects of a list; nothing where it is no list."""
    return as_rows(value) if isinstance(value, list) else []


def read_json(text: str, path: Path) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise UsageError(f"{path} is not JSON: {error}", "fetch it again") from error


def loose_json(value: Any) -> JsonObject:
    """An object, or JSON text of one; else nothing."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return {}
    return cast("JsonObject", value) if isinstance(value, dict) else {}


def plain_text(value: Any) -> str:
    """The text of a message, whether it is one string or a list of parts."""
    if isinstance(value, str):
        return value
    return "\n".join(str(part.get("text") or part.get("content") or "") for part in objects(value))


def trace_of_calls(name: str, agent: str, licence: str, turns: Sequence[Sequence[Call]], task_id: str) -> Trace:
    """A trace with nothing but calls and answers: what a model said or thought is left behind."""
    messages: list[Message] = [{"role": "user", "content": ""}]
    spans: list[Turn] = []
    for number, calls in enumerate(turns):
        start = len(messages)
        made: list[ToolCall] = []
        for place, call in enumerate(calls):
            tool, arguments = as_our_tool(call.tool, call.arguments)
            function = {"name": tool, "arguments": canonical_json(arguments)}
            made.append(cast("ToolCall", {"id": f"call_{number}_{place}", "type": "function", "function": function}))
        messages.append({"role": "assistant", "content": "", "tool_calls": made})
        for call, shown in zip(made, calls, strict=True):
            messages.append({"role": "tool", "content": shown.output, "tool_call_id": call["id"]})
        spans.append(Turn(start=start, end=len(messages)))
    return Trace(
        trace_id=content_id(agent, name),
        source=Source(agent=agent, licence=licence),
        messages=tuple(messages),
        turns=tuple(spans),
        task_id=task_id,
    )


def as_our_tool(tool: str, arguments: Mapping[str, Any]) -> tuple[str, JsonObject]:
    command, path = _first(arguments, COMMANDS), _first(arguments, PATHS)
    old, new, content = _first(arguments, OLD_TEXTS), _first(arguments, NEW_TEXTS), _first(arguments, CONTENTS)
    if path and old is not None and new is not None:
        return "edit_file", {"path": path, "old": old, "new": new}
    if path and content is not None:
        return "write_file", {"path": path, "content": content}
    if path and command in (None, "view", "read", "open"):
        return "read_file", {"path": path}
    if command:
        return "bash", {"command": command.rstrip("\n")}
    source = _first(arguments, SOURCES)
    if source:
        return "python", {"code": source}
    return tool or "unknown", dict(arguments)


def _first(arguments: Mapping[str, Any], names: Sequence[str]) -> str | None:
    for name in names:
        value = arguments.get(name)
        if isinstance(value, str):
            return value
        if isinstance(value, list) and value and all(isinstance(part, str) for part in cast("list[Any]", value)):
            return " ".join(cast("list[str]", value))
    return None


def _parquet(path: Path) -> Iterator[JsonObject]:
    try:
        import pyarrow.parquet as parquet  # pyright: ignore[reportMissingImports, reportMissingTypeStubs]
    except ModuleNotFoundError as error:
        raise UsageError(f"{path} is Parquet, and pyarrow is missing", "pip install pyarrow") from error
    file: Any = parquet.ParquetFile(path)
    for batch in file.iter_batches(batch_size=16):
        yield from batch.to_pylist()
