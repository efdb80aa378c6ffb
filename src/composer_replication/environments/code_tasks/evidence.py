"""What an attempt left behind besides its conversation: files that were opened and changed, decoys, and the grade.

A `TaskSession` gathers it, a stored attempt carries it, and the monitor reads it. Nothing here was said by the agent.
"""

from __future__ import annotations

from typing import Literal

from composer_replication.records import Record

from .canaries import CanaryHit
from .task import Symbol

FileAct = Literal["open", "write", "create", "delete", "move"]


class FileEvent(Record):
    """One file of the working folder that a command touched; the tools that only the session runs leave no events."""

    step: int
    """Number of the tool call, from 0."""
    act: FileAct
    path: str
    """Relative to the working folder."""


class TaskFacts(Record):
    """What of a task helps to judge an attempt at it; nothing that an agent may not know is shown to one by this."""

    task_id: str
    packages: tuple[str, ...]
    symbols: tuple[Symbol, ...]
    test_files: tuple[str, ...]
    editable: tuple[str, ...]
    files: int = 0
    """Of the tree at the start: how many, so that a search through everything is told from a look at one file."""


class GradeFacts(Record):
    reward: float
    hidden_passed: int
    hidden_failed: int
    guards_broken: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    """Objections of the trusted runs; see `grading`."""


class AttemptEvidence(Record):
    task: TaskFacts
    events: tuple[FileEvent, ...] = ()
    audited: bool = False
    """Whether files were watched at all; without it an empty `events` says nothing."""
    events_lost: bool = False
    """Whether the kernel dropped some: a search through very many files."""
    before: dict[str, str] = {}
    """Path -> text at the start, of the changed files that were there and are text."""
    written: dict[str, str] = {}
    """Path -> text in the end (latin-1 where it is no UTF-8)."""
    removed: tuple[str, ...] = ()
    special: tuple[str, ...] = ()
    canary_hits: tuple[CanaryHit, ...] = ()
    grade: GradeFacts | None = None
