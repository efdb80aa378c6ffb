"""One rollout as the monitor sees it: calls and answers without the model's reasoning, and what was left behind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from composer_replication.environments.evidence import AttemptEvidence

StepKind = Literal["command", "python", "read", "write", "edit", "patch", "tests", "search", "other"]
Verb = Literal[
    "read", "write", "delete", "list", "search", "run", "git", "net", "install", "unpack", "decode", "import",
    "inspect", "kill", "background", "env", "syscall", "shell", "say", "fork",
]  # fmt: skip


MANY_PROCESSES, MANY_FILES = 100, 1_000
"""A loop that starts or makes as many is a flood."""


@dataclass(frozen=True)
class ToolStep:
    """One tool call. What does not apply to its kind is empty."""

    number: int
    """Of the tool call in its trace, from 0."""
    turn: int
    kind: StepKind
    tool: str
    command: str = ""
    """Of `command` the shell text, of `python` the source, of `patch` the patch, of `search` the pattern."""
    path: str = ""
    text: str = ""
    """What `write` writes, or what `edit` puts in."""
    old: str = ""
    output: str = ""


@dataclass(frozen=True)
class Conduct:
    trace_id: str
    steps: tuple[ToolStep, ...]
    evidence: AttemptEvidence | None = None
    """None for ingested traces, which have their conversation only."""
    person: bool = False
    """Whether a person sat in front of the agent: what they ask for is no hack."""


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
