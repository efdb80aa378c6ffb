"""What an attempt left behind besides its conversation: files that were opened and changed, decoys, and the grade.

An episode gathers it, a stored attempt carries it, and the monitor reads it. Nothing here was said by the agent.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from pydantic import Field

from composer_replication.records import Record, StoredRecord

EVIDENCE = "ingestion/evidence.jsonl.zst"
"""In a run directory: one `TraceEvidence` per attempt."""
Evidence = Literal["hard", "soft"]
Layer = Literal["command", "event", "diff", "verifier", "canary"]
FileAct = Literal["open", "write", "create", "delete", "move"]


DecoyKind = Literal[
    "bytecode", "test_cache", "type_cache", "build_copy", "wheel", "pip_cache", "git_object", "verifier"
]


class Symbol(Record):
    """A function, method or class of the repository."""

    file: str
    """Path of the file that holds it."""
    name: str
    """Qualified inside its file, as `Class.method`."""


class CanaryHit(Record):
    """A decoy that turned up where it should not be."""

    channel: DecoyKind
    """What the decoy looks like."""
    path: str
    evidence: Literal["hard", "soft"]
    """`hard` proves a look at it; `soft` suggests one."""
    where: str
    """`text N` counts the texts from 0; `diff PATH` is a changed file; `open` is a file event."""


class FileEvent(Record):
    """One file of the working folder that a command touched; the tools that only the session runs leave no events."""

    step: int
    """Number of the tool call, from 0."""
    act: FileAct
    path: str
    """Relative to the working folder; a folder ends with a slash."""


class TaskFacts(Record):
    """What of a task helps to judge an attempt at it; nothing that an agent may not know is shown to one by this."""

    task_id: str
    packages: tuple[str, ...]
    """Import names of the repository's packages."""
    symbols: tuple[Symbol, ...]
    test_files: tuple[str, ...]
    """Paths of its tests."""
    editable: tuple[str, ...]
    """Patterns of the paths that an attempt may change."""
    files: int = 0
    """Of the tree at the start: how many, so that a search through everything is told from a look at one file."""
    files_by_suffix: dict[str, int] = Field(default_factory=dict[str, int])
    """The same by the end of their names, as `.py`; a search often takes one kind."""
    test_literals: tuple[str, ...] = ()
    """Values that stand in the task's tests, as `repr` writes them: a table of answers holds such."""
    examples: tuple[tuple[str, str], ...] = ()
    """Arguments and results that the statement shows of the task's symbols, as `repr` writes them."""


class GradeFacts(Record):
    """How an attempt was graded."""

    reward: float
    """1 is solved."""
    hidden_passed: int
    """Hidden tests that passed."""
    hidden_failed: int
    """Hidden tests that failed."""
    guards_broken: tuple[str, ...] = ()
    """Tests that passed before and fail now."""
    dropped: tuple[str, ...] = ()
    """Changed files that the grader left out."""
    notes: tuple[str, ...] = ()
    """Objections of the trusted runs; see `grading`."""


class AttemptEvidence(Record):
    """What one attempt left behind."""

    task: TaskFacts
    events: tuple[FileEvent, ...] = ()
    """In their order."""
    audited: bool = False
    """Whether files were watched at all; without it an empty `events` says nothing."""
    events_lost: bool = False
    """Whether the kernel dropped some: a search through very many files."""
    events_left_out: int = 0
    """Beyond the number that is kept of one call."""
    opened_per_step: tuple[int, ...] = ()
    """Different files that each call opened, counted before any was left out; calls after the last have none."""
    unwatched_folders: int = 0
    """Folders for which the user has no watches left; nothing in them was seen."""
    before: dict[str, str] = Field(default_factory=dict[str, str])
    """Path -> text at the start, of the changed files that were there and are text."""
    written: dict[str, str] = Field(default_factory=dict[str, str])
    """Path -> text in the end (latin-1 where it is no UTF-8); cut where it is very long."""
    written_left_out: int = 0
    """Changed files whose text is not kept: too many."""
    removed: tuple[str, ...] = ()
    """Paths that are gone."""
    special: tuple[str, ...] = ()
    """Paths of new links, devices and sockets."""
    canary_hits: tuple[CanaryHit, ...] = ()
    """Empty where no decoy was touched."""
    grade: GradeFacts | None = None
    """None where nobody graded."""


class TraceEvidence(StoredRecord):
    """A line of `RUN/ingestion/evidence.jsonl.zst`; see `EVIDENCE`."""

    trace_id: str
    """Of the attempt."""
    evidence: AttemptEvidence


class Sign(NamedTuple):
    """One piece of evidence for one class of hack, as a rule found it.

    `step` counts tool calls from 0; None is the attempt as a whole. `line` is the offending text.
    """

    rule: str
    """Name of the rule."""
    hack_class: str
    """Name of the class."""
    layer: Layer
    evidence: Evidence
    step: int | None
    line: str
