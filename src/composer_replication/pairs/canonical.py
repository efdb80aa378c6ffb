"""One spelling per tool call, so that teachers who mean the same are seen to agree.

Reads a call as `records.canonical_call` writes it and the tool's JSON schema; writes the call again with
1.0 as 1 where the schema says number, `./a//b` as `a/b`, an argument that only repeats its default left out, blanks at
the ends of shell commands and the quoting style of simple ones evened out, and set-typed lists sorted. Whatever might
change what a call does stays as it is: `..` (links), a slash at the end, globs, variables, anything a shell expands.

`mend_types` also turns "3" into 3 where the schema wants a number. That is for votes only: a strict tool refuses "3",
so such an action of the actor or of the policy is not the same as the agreed one.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

from composer_replication.records import JsonObject, canonical_call, canonical_json, json_object

PATH_ARGUMENTS = frozenset(
    "path file_path filepath absolute_path notebook_path directory dir cwd workdir target_file".split()
)
SHELL_TOOLS = frozenset(
    """
    bash shell terminal run_command run_terminal_cmd run_shell_command execute_bash execute_command exec_command
    local_shell
    """.split()
)
SHELL_ARGUMENTS = frozenset({"command", "cmd"})
FREE_TEXT: Mapping[str, frozenset[str]] = {
    "bash": frozenset({"description"}),
    "run_shell_command": frozenset({"description"}),
    "run_terminal_cmd": frozenset({"explanation"}),
    "read_file": frozenset({"explanation"}),
    "grep_search": frozenset({"explanation"}),
    "list_dir": frozenset({"explanation"}),
}
"""Arguments that only describe a call to a reader, by lower-case tool name. Schemas mark others as `x-free-text`."""

_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?")
_EXACT_INTEGERS = 1 << 53
_EXACT_DIGITS = 15
_PIECE = r"(?:[A-Za-z0-9_@%+:,./=-]|'[^']*'|\"[^\"$`\\!]*\")"
SIMPLE_COMMAND = re.compile(rf"[A-Za-z0-9_./+-]+(?:[ \t]+{_PIECE}+)*")
_RESERVED = frozenset("if then else elif fi do done case esac while until for in function time select coproc".split())


class ActionCall(NamedTuple):
    name: str
    arguments: JsonObject


def parse_action(action: str | None) -> ActionCall | None:
    """The call that a canonical text holds; None for anything that is not exactly one well-formed call."""
    try:
        (action or "").encode()  # a lone surrogate could not be written down
    except UnicodeEncodeError:
        return None
    fields = json_object(action or "")
    if fields is None:
        return None
    name, arguments = fields.get("name"), fields.get("arguments")
    if fields.keys() != {"name", "arguments"} or not isinstance(name, str) or not name:
        return None
    return ActionCall(name, cast("JsonObject", arguments)) if isinstance(arguments, dict) else None


def canonical_action(action: str, tools: Sequence[JsonObject], mend_types: bool = False) -> str:
    """The action's one spelling; unchanged where it is no call. With `mend_types` "3" is 3 where the
    schema wants a number."""
    call = parse_action(action)
    if call is None:
        return action
    try:
        arguments = _object(call.arguments, schema_of(call.name, tools), call.name, mend_types)
    except RecursionError:
        return action
    return canonical_call(call.name, arguments)


def critical_key(action: str, tools: Sequence[JsonObject]) -> str | None:
    """What must be equal at the critical tier; None where nothing but the tool's name would be left to compare.

    Where the schema marks arguments as `x-critical`, those count; else all but the free texts do.
    """
    call = parse_action(canonical_action(action, tools))
    if call is None:
        return None
    properties = _properties(schema_of(call.name, tools))
    marked = {name for name, schema in properties.items() if schema.get("x-critical") is True}
    ignored = {name for name, schema in properties.items() if schema.get("x-free-text") is True}
    ignored |= FREE_TEXT.get(call.name.lower(), frozenset())
    kept = {
        name: value for name, value in call.arguments.items() if (name in marked if marked else name not in ignored)
    }
    return canonical_call(call.name, kept) if kept else None


def schema_of(name: str, tools: Sequence[JsonObject]) -> JsonObject:
    """The parameters of a tool as JSON schema, empty where there is none."""
    for tool in tools:
        function: Any = tool.get("function", tool)
        if isinstance(function, dict) and cast("JsonObject", function).get("name") == name:
            parameters: Any = cast("JsonObject", function).get("parameters") or {}
            return cast("JsonObject", parameters) if isinstance(parameters, dict) else {}
    return {}


def _object(value: JsonObject, schema: JsonObject, tool: str, mend_types: bool) -> JsonObject:
    properties = _properties(schema)
    listed: Any = schema.get("required")
    required = set(cast("list[object]", listed)) if isinstance(listed, list) else set[object]()
    result: JsonObject = {}
    for name, item in value.items():
        inner = properties.get(name, {})
        clean = _value(item, inner, tool, name, mend_types)
        if "default" in inner and name not in required:
            default = _value(inner["default"], inner, tool, name, mend_types)
            if canonical_json(clean) == canonical_json(default):
                continue
        result[name] = clean
    return result


def _value(value: Any, schema: JsonObject, tool: str, name: str, mend_types: bool) -> Any:
    types = _types(schema)
    if isinstance(value, dict):
        return _object(cast("JsonObject", value), schema, "", mend_types)
    if isinstance(value, list):
        items: Any = schema.get("items")
        inner = cast("JsonObject", items) if isinstance(items, dict) else {}
        cleaned = [_value(item, inner, "", "", mend_types) for item in cast("list[Any]", value)]
        return sorted(cleaned, key=canonical_json) if schema.get("uniqueItems") is True else cleaned
    if types and types <= {"number", "integer", "null"}:
        return _number(value, types, mend_types)
    if isinstance(value, str) and (not types or "string" in types):
        if tool.lower() in SHELL_TOOLS and name in SHELL_ARGUMENTS:
            return shell_command(value)
        if name in PATH_ARGUMENTS or schema.get("format") == "path":
            return file_path(value)
    return value


def _number(value: Any, types: set[str], mend_types: bool) -> Any:
    if mend_types and isinstance(value, str):
        match = _NUMBER.fullmatch(value) if len(value) <= _EXACT_DIGITS else None
        if match and ("number" in types or match[1] is None):
            value = json.loads(value)
    # A strict tool refuses 1.0 for an integer, so only `number` makes the two the same for everybody.
    whole = isinstance(value, float) and value.is_integer() and abs(value) < _EXACT_INTEGERS and str(value) != "-0.0"
    return int(value) if whole and ("number" in types or mend_types) else value


def file_path(path: str) -> str:
    """`./a//b` as `a/b`. Links make `..` and a last slash or dot matter; `//host` and backslashes are left alone."""
    parts = path.split("/")
    kept = [part for part in parts if part not in ("", ".")]
    special = "\\" in path or "://" in path or (path.startswith("//") and not path.startswith("///"))
    if special or not kept or parts[-1] == "." or path != path.strip():
        return path
    start = "/" if path.startswith("/") else "./" if path.startswith("./") and kept[0][0] in "-~" else ""
    return start + "/".join(kept) + ("/" if parts[-1] == "" else "")


def shell_command(command: str) -> str:
    """Blanks at the ends removed; a command of plain and quoted words in one quoting style."""
    stripped = command.strip(" \t\n")
    # A blank may be escaped, or part of what ends a here-document.
    if stripped.endswith("\\") or "<<" in stripped:
        return command
    words = SIMPLE_COMMAND.fullmatch(stripped) and shlex.split(stripped)
    # Unquoted, a word that starts with = is expanded by zsh.
    if not words or words[0] in _RESERVED or any(word.startswith("=") for word in words):
        return stripped
    return shlex.join(words)


def _properties(schema: JsonObject) -> dict[str, JsonObject]:
    found: Any = schema.get("properties")
    if not isinstance(found, dict):
        return {}
    return {name: inner for name, inner in cast("dict[str, Any]", found).items() if isinstance(inner, dict)}


def _types(schema: JsonObject) -> set[str]:
    found: Any = schema.get("type")
    listed = cast("list[Any]", found) if isinstance(found, list) else [found]
    return {name for name in listed if isinstance(name, str)}
