"""Which edit broke a command that had passed. Fed with the calls of a trace, turn by turn.

To run a check is right; where its failure has one known cause, the turn that went wrong is the edit. It is known when
the same command passed before and one edit has been made since, or only one edit to a file that the output names.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from composer_replication.records import ToolCall

from .shell import arguments_of, command_of, may_write

_EDITS = re.compile(r"edit|write(?!_stdin)|replace|patch|create_file|insert")
_PATH_KEYS = ("file_path", "path", "filename", "target_file", "notebook_path")
_ONLY_LOOKS = frozenset({"view", "undo_edit"})


class FileChange(NamedTuple):
    turn: int
    tool: str
    file: str


class EditsSince:
    """What was changed since each command last passed."""

    def __init__(self) -> None:
        self._edits: list[FileChange] = []
        self._commands: list[tuple[int, str]] = []
        self._passed: dict[str, int] = {}

    def feed(self, turn: int, call: ToolCall | None, failed: bool) -> None:
        command = command_of(call)
        if call is None or (failed and command is None):
            return
        if command is None:
            edit = _edit_of(turn, call)
            self._edits += [edit] if edit else []
        elif failed:
            self._passed.pop(_key(command), None)
        else:
            self._passed[_key(command)] = turn
        if command is not None and may_write(command):
            self._commands.append((turn, _key(command)))

    def broken_by(self, call: ToolCall | None, output: str) -> FileChange | None:
        """The edit to blame for a command that fails now; None where there is none or more than one."""
        command = command_of(call)
        passed = self._passed.get(_key(command)) if command else None
        if command is None or passed is None:
            return None
        edits = [edit for edit in self._edits if edit.turn > passed]
        named = [edit for edit in edits if edit.file and re.search(rf"\b{re.escape(edit.file)}\b", output)]
        others = any(turn > passed and key != _key(command) for turn, key in self._commands)
        suspects = edits if len(edits) == 1 and not others else named
        return suspects[0] if len(suspects) == 1 else None


def may_change(call: ToolCall | None) -> bool:
    """Whether a call that did its work may have made another one end differently."""
    command = command_of(call)
    return may_write(command) if command is not None else call is not None and _edit_of(0, call) is not None


def _key(command: str) -> str:
    return " ".join(command.split())


def _edit_of(turn: int, call: ToolCall) -> FileChange | None:
    name, fields = call["function"]["name"], arguments_of(call)
    path = next((str(fields[key]) for key in _PATH_KEYS if fields.get(key)), "")
    if not _EDITS.search(name.lower()) or str(fields.get("command")) in _ONLY_LOOKS:
        return None
    return FileChange(turn, name, path.replace("\\", "/").rsplit("/", 1)[-1])
