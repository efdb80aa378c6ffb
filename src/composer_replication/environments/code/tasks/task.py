"""A verifiable task on the source of a repository: what the agent sees, what grades it, and what solves it.

On disk a task is a folder in Harbor's format, with our own record next to it:

    TASK/instruction.md                 the statement
    TASK/task.toml                      Harbor's settings
    TASK/task.json                      `CodeTask`
    TASK/environment/{Dockerfile,repo/} the tree that the agent starts from
    TASK/tests/{test.sh,overlay/,…}     trusted tests and configuration; never in the agent's sandbox
    TASK/solution/{solve.sh,gold/}      files that solve it; never in the agent's sandbox
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path
from typing import Literal, NamedTuple

from pydantic import Field

from composer_replication.records import JsonObject, Message, Record, Task

from ...evidence import Symbol

Grain = Literal["symbol", "cluster", "cross-module"]
Level = Literal["L0", "L1", "L2", "L3"]
GraderName = Literal["tests", "mutants"]
START_CPU_S = 3
"""An interpreter with pytest takes a tenth of this."""


class CodeTask(Record):
    """Everything that is known of a task but its files."""

    task: Task
    repository: str
    generator: str
    """`feature_deletion`, `bug_injection`, `test_writing`, `commits`, or a third party's."""
    grader: GraderName = "tests"
    grain: Grain = "symbol"
    mode: str
    level: Level
    symbols: tuple[Symbol, ...]
    packages: tuple[str, ...]
    """Importable names of the repository, which no interpreter of the sandbox may know from elsewhere."""
    source_roots: tuple[str, ...]
    """Folders of the tree that go on the import path."""
    distributions: tuple[str, ...] = ("pytest",)
    """What the interpreter of every sandbox of the task needs besides the standard library; see `toolchain`."""
    pytest_plugins: tuple[str, ...] = ()
    """Modules of those distributions that pytest loads by name; nothing is loaded by itself."""
    pytest_options: tuple[str, ...] = ()
    """By which the repository chooses among its tests; nothing else of its `addopts` holds in a sandbox."""
    test_files: tuple[str, ...]
    hidden_tests: tuple[str, ...]
    """Pytest ids that fail or error at the start and pass with the solution."""
    units: tuple[tuple[str, ...], ...] = ()
    """What the reward counts: hidden tests that are only worth something together. Empty: each for itself."""
    guard_tests: tuple[str, ...]
    """Pytest ids that pass at the start and must go on passing."""
    editable: tuple[str, ...]
    """Patterns (`fnmatch`) of the paths that a solution may touch; the rest of a submission is dropped."""
    seconds_per_run: float
    """Of the hidden and guard tests together, when the task was made."""
    tags: tuple[str, ...] = ()
    provenance: JsonObject = Field(default_factory=dict)

    @property
    def cpu_limit_s(self) -> int:
        """Of one process that runs tests of this task. Other work on the machine does not use it up, so code that does
        not end is known by it sooner than by the clock."""
        return START_CPU_S + ceil(2 * self.seconds_per_run)

    def share_of_units(self, passed: Collection[str]) -> float:
        """Of the reward, where the guards are whole: a unit counts if each of its tests is among these."""
        units = self.units or tuple((test,) for test in self.hidden_tests)
        return sum(set(unit) <= set(passed) for unit in units) / len(units) if units else 0.0


class TaskFolder(NamedTuple):
    """A task and where its parts lie."""

    code_task: CodeTask
    folder: Path

    @property
    def tree(self) -> Path:
        return self.folder / "environment" / "repo"

    @property
    def overlay(self) -> Path:
        return self.folder / "tests" / "overlay"

    @property
    def gold(self) -> Path:
        return self.folder / "solution" / "gold"


@dataclass(frozen=True)
class Candidate:
    """A change to a repository that a generator proposes; the gates decide whether it is a task."""

    name: str
    generator: str
    mode: str
    symbols: tuple[Symbol, ...]
    edits: dict[str, str | None]
    """Path -> new text, None for a removed file; applied to the whole repository it gives the agent's tree."""
    expected_failing: frozenset[str]
    """Tests that the change should break."""
    statement: dict[Level, str]
    editable: tuple[str, ...]
    grain: Grain = "symbol"
    grader: GraderName = "tests"
    difficulty: dict[str, float] = field(default_factory=dict[str, float])
    shown_tests: frozenset[str] = frozenset()
    """Those of the expected ones whose text L0 shows: hidden in the tree, and at L0 no part of the reward where enough
    others are left."""
    examples: dict[str, str] | None = None
    """Test functions (`path::name`) and their texts that L0 may show besides, where hidden tests turn out to ask more
    than it says. None: the statement is enough."""
    mutants: tuple[dict[str, str], ...] = ()
    """For the grader `mutants`: `path` and `text` of one broken source file each. The gates keep those that the
    original tests notice (`certificates.gates.killed_mutants`)."""
    solution_lines: dict[str, frozenset[int]] = field(default_factory=dict[str, frozenset[int]])
    """Where the solution is only a part of the symbols: the lines of the original files that it writes, from 1."""
    few_tests: bool = False
    """Whether one noticing test is enough. Such a task must not have weak tests."""


@dataclass(frozen=True)
class Rejection:
    candidate: str
    reason: str
    """One word with underscores; the funnel counts it."""
    detail: str = ""


class Rejected(Exception):
    """Why a candidate is none, where that is found out; a `Rejection` is made of it."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(reason)
        self.reason, self.detail = reason, detail


@dataclass(frozen=True)
class Submission:
    """What the agent changed, as its sandbox's `diff` tells it."""

    written: dict[str, bytes] = field(default_factory=dict[str, bytes])
    removed: tuple[str, ...] = ()


@dataclass(frozen=True)
class Grade:
    """What the trusted run of the tests said. Only `passed` counts; an id without a record has failed."""

    reward: float
    hidden_passed: tuple[str, ...]
    hidden_failed: tuple[str, ...]
    guards_broken: tuple[str, ...]
    dropped: tuple[str, ...] = ()
    """Paths of the submission that are not editable."""
    notes: tuple[str, ...] = ()
    wall_s: float = 0.0


@dataclass(frozen=True)
class AskedTask:
    """A code task as it is put to a policy: how the conversation begins, and what results are told apart by."""

    folder: TaskFolder
    messages: tuple[Message, ...]
    labels: Mapping[str, str]

    @property
    def task_id(self) -> str:
        return self.folder.code_task.task.task_id
