"""Tool calls of any agent as steps: one visible table from the names of tools to what they do.

Reads a trace, writes nothing. Knows the six tools of code tasks and those of Claude Code, codex, OpenHands, SWE-agent,
mini-swe-agent, gemini, copilot, cline, aider and terminus. A tool that only plans, asks or talks to other agents is
`other`, and so is one nobody has named yet. Text typed into a running program is taken for a command.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple, cast

from composer_replication.records import ToolCall, Trace, arguments_written

from .conduct import StepKind, ToolStep

NAMES_OF_TOOLS: dict[StepKind, str] = {
    "command": "bash shell sh powershell pwsh terminal exec_command execute_command execute_bash run run_command"
    " run_commands run_shell_command run_terminal_cmd run_in_terminal local_shell container.exec shell_command command"
    " cmd bash_command execute unified_exec write_stdin monitor launch-process cmdrunaction str_replace_based_shell"
    " execute_shell interactive_shell",
    "python": "execute_ipython_cell run_ipython ipython python jupyter notebookexecute execute_python",
    "read": "read read_file view read_files open_file cat readfile view_file read_many_files notebookread view_image"
    " fileread open get_file_contents fs_read",
    "write": "write write_file create create_file write_to_file save-file filewrite fs_write",
    "edit": "edit edit_file multiedit multi_edit search_replace replace editor replace_in_file notebookedit"
    " str_replace_editor file_editor str_replace_based_edit_tool str_replace insert_edit_into_file"
    " replace_string_in_file edit_file_by_replace insert fileedit undo_edit",
    "patch": "apply_patch patch apply_diff",
    "tests": "run_tests run_test runtests test",
    "search": "grep glob grep_search file_search search_file_content search_files list_files find_file search_dir"
    " search_file codebase_search ls list_dir list_directory grep_files think_search",
}
"""A name is looked up in lower case and without the prefix of a server (`mcp__files__read_file`)."""
KIND_OF: dict[str, StepKind] = {name: kind for kind, names in NAMES_OF_TOOLS.items() for name in names.split()}
COMMAND_KEYS = ("command", "cmd", "commands", "keystrokes", "script", "code", "input", "chars", "text")
PATH_KEYS = tuple("path file_path filename file absolute_path notebook_path target_file filePath dir_path".split())
TEXT_KEYS = tuple("content new_string new_str new replace new_text file_text contents new_source insert_text".split())
OLD_KEYS = ("old_string", "old_str", "old", "search", "old_text", "oldString")
PATTERN_KEYS = ("pattern", "query", "search_term", "regex", "search_query", "file_name")
EDITOR_VERBS: dict[str, StepKind] = {"view": "read", "create": "write", "str_replace": "edit", "insert": "edit"}
_SCRIPTED = re.compile(r"tools\.(exec_command|shell|apply_patch|write_stdin)\(\s*")
_PROMPT = re.compile(r"[\x00-\x08\x0b-\x1f]")
_OF_SWE_AGENT = re.compile(
    r"(open|create|edit|find_file|search_dir|search_file|goto|scroll_\w+|submit)\b[ \t]*([^\n]*)\n?(.*)", re.DOTALL
)


class _Did(NamedTuple):
    kind: StepKind
    command: str = ""
    path: str = ""
    text: str = ""
    old: str = ""


def steps_of(trace: Trace) -> tuple[ToolStep, ...]:
    """One step per tool call, in order; calls that name several files or edits stay one step, their texts joined."""
    steps: list[ToolStep] = []
    opened = ""
    for number, turn in enumerate(trace.turns):
        answers = [message for message in trace.messages[turn.start + 1 : turn.end] if message["role"] == "tool"]
        results = {str(answer.get("tool_call_id", "")): answer for answer in answers}
        for call in trace.messages[turn.start].get("tool_calls", []):
            did, result = _did(call, opened), results.get(call["id"])
            opened = did.path or opened
            tool, output = call["function"]["name"], result["content"] if result else ""
            steps.append(ToolStep(len(steps), number, tool=tool, output=output, **did._asdict()))
    return tuple(steps)


def _did(call: ToolCall, opened: str) -> _Did:
    name = call["function"]["name"].lower().rsplit("__", 1)[-1]
    value = arguments_written(call)
    fields = cast(dict[str, Any], value) if isinstance(value, dict) else {"command": value}
    if name == "exec":
        return _scripted(str(fields.get("input", fields.get("command", ""))))
    kind: StepKind = KIND_OF.get(name, "other")
    if kind == "edit" and str(fields.get("command")) in EDITOR_VERBS and "path" in fields:
        kind = EDITOR_VERBS[str(fields["command"])]
    if kind == "command":
        return _command(_text(fields, COMMAND_KEYS), opened)
    if kind == "python":
        return _Did("python", _text(fields, ("code", *COMMAND_KEYS)))
    if kind == "patch":
        return _Did(
            "patch", _text(fields, ("input", "patch", "diff", "patch_text", "command")), _text(fields, PATH_KEYS)
        )
    if kind == "search":
        return _Did(
            "search", _text(fields, PATTERN_KEYS), _text(fields, (*PATH_KEYS, "directory", "dir", "target_directory"))
        )
    if kind == "other":
        return _Did("other", _text(fields, ("url",)))
    return _of_file(kind, fields)


def _of_file(kind: StepKind, fields: dict[str, Any]) -> _Did:
    if kind == "read":
        return _Did("read", path=_text(fields, (*PATH_KEYS, "files", "paths")))
    edits = [cast(dict[str, Any], each) for each in _items(fields.get("edits")) if isinstance(each, dict)]
    if edits:
        text, old = ("\n".join(_text(each, keys) for each in edits) for keys in (TEXT_KEYS, OLD_KEYS))
        return _Did("edit", path=_text(fields, PATH_KEYS), text=text, old=old)
    old = _text(fields, OLD_KEYS)
    if kind == "edit" and not old and "search" in fields:
        kind = "write"
    return _Did(kind, path=_text(fields, PATH_KEYS), text=_text(fields, TEXT_KEYS), old=old)


def _command(text: str, opened: str) -> _Did:
    text = _PROMPT.sub("", text)
    if not text.strip():
        return _Did("other")
    found = _OF_SWE_AGENT.fullmatch(text.strip())
    if found is None or (found[3].strip() and found[1] != "edit"):
        return _Did("command", text)
    verb, words, body = found[1], found[2].strip(), found[3]
    first = words.split(" ")[0].strip("\"'") if words else ""
    if verb == "edit" and re.match(r"\d+:\d+", words):
        return _Did("edit", path=opened, text=body.removesuffix("end_of_edit").rstrip("\n"))
    if verb == "open" and first:
        return _Did("read", path=first)
    if verb == "create" and first:
        return _Did("write", path=first)
    if verb in ("find_file", "search_dir", "search_file") and first:
        rest = words.split(" ")[1:]
        return _Did("search", first, rest[-1].strip("\"'") if rest else "")
    return _Did("other") if verb in ("goto", "submit") or verb.startswith("scroll") else _Did("command", text)


def _scripted(source: str) -> _Did:
    """Calls inside a script for codex: the commands of all of them, or the patch."""
    commands: list[str] = []
    for found in _SCRIPTED.finditer(source):
        fields = _object_at(source, found.end())
        if found[1] == "apply_patch":
            return _Did("patch", _text(fields, ("input", "patch", "command")) or source)
        if text := _text(fields, COMMAND_KEYS):
            commands.append(text)
    if commands:
        return _Did("command", "\n".join(commands))
    return _Did("patch", source) if "*** Begin Patch" in source else _Did("other")


def _object_at(source: str, start: int) -> dict[str, Any]:
    try:
        value: Any = json.JSONDecoder().raw_decode(source, start)[0]
    except (ValueError, RecursionError):
        quoted = re.compile(
            r"\{?\s*[\"']?(?:cmd|command)[\"']?\s*:\s*(\"(?:\\.|[^\"\\])*\"|`[^`]*`|'(?:\\.|[^'\\])*')"
        ).match(source, start)
        return {"command": _unquoted(quoted[1])} if quoted else {}
    return cast(dict[str, Any], value) if isinstance(value, dict) else {"command": value}


def _unquoted(text: str) -> str:
    try:
        return str(json.loads(text))
    except ValueError:
        return text[1:-1]


def _items(value: Any) -> Iterator[Any]:
    if isinstance(value, list):
        yield from cast(list[Any], value)


def _text(fields: dict[str, Any], keys: tuple[str, ...]) -> str:
    """The first of the keys that is there, as text; of a list `bash -lc X` is X, others are joined."""
    value: Any = next((fields[key] for key in keys if fields.get(key) not in (None, "")), "")
    if not isinstance(value, list):
        return str(cast(dict[str, Any], value).get("path", value)) if isinstance(value, dict) else str(value)
    words = [_text({"item": each}, ("item",)) for each in _items(value)]
    if len(words) == 3 and re.fullmatch(r"(.*/)?(ba|z)?sh", words[0]) and re.fullmatch(r"-\w*c", words[1]):
        return words[2]
    return ("\n" if "commands" in fields else " ").join(words)
