"""Errors a user can act on: what happened, and the one command to run next. Each class carries its exit code."""

from __future__ import annotations

import shlex
from pathlib import Path

MAKE_ROOM = "make room, then run the same command again"
"""Where a disk is full. What was finished is kept."""


class RecomposeError(Exception):
    """Printed as one line, `error: <what happened>; next: <command>`, without a traceback."""

    exit_code = 1

    def __init__(self, message: str, next_command: str) -> None:
        super().__init__(message)
        self.next_command = next_command

    def __str__(self) -> str:
        return " ".join(f"{self.args[0]}; next: {self.next_command}".split())


class UsageError(RecomposeError):
    """Wrong arguments or configuration, or nothing readable in the input."""

    exit_code = 2


class BudgetError(RecomposeError):
    """The spending cap, or the provider's, has no room for the next call; the work is saved."""

    exit_code = 3


class PartialError(RecomposeError):
    """Some records were set aside; the rest is saved."""

    exit_code = 4


class ToldElsewhereError(RecomposeError):
    """The main of several processes tells what went wrong; this one ends with its `exit_code` and without words."""

    def __init__(self, exit_code: int) -> None:
        super().__init__("another process failed", "read what the main process says")
        self.exit_code = exit_code


class Terminated(KeyboardInterrupt):
    """SIGTERM: sandboxes, control groups and temporary folders are removed on the way out, as after an interrupt."""


def quoted(path: Path | str) -> str:
    """A path as it stands in a command that may be copied into a shell."""
    return shlex.quote(str(path))
