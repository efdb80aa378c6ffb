"""One thing that was done, whatever its spelling: the word that the rules of the command layer are written in."""

from __future__ import annotations

from typing import Literal, NamedTuple

Verb = Literal[
    "read", "write", "delete", "list", "search", "run", "git", "net", "install", "unpack", "decode", "import",
    "inspect", "kill", "background", "env", "syscall", "shell", "say", "fork",
]  # fmt: skip


MANY_PROCESSES, MANY_FILES = 100, 1_000
"""A loop that starts or makes as many is a flood."""


class Act(NamedTuple):
    verb: Verb
    target: str
    """A path or pattern, a program, a module, an address, the name of a variable or of a system call."""
    detail: str = ""
    """By what: a program with its words, or a function."""
    line: str = ""
    text: str = ""
    """What was written, said, searched for or set."""
    old: str = ""
    """What an edit took out."""
    folder: str = ""
    """Where a program ran, seen from where its call started."""
