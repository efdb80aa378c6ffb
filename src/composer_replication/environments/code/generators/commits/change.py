"""What a commit changed in the package, taken back from today's files: edits, lines, and what they concern.

What the change wrote must still stand there as it was. Less strict than a merge: a change next to it does not matter.
Asks `git diff` where texts differ.
"""

from __future__ import annotations

import ast
import itertools
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ...tasks.repository import Repository
from ...tasks.symbols import Definition, Module, SourceIndex, parse_module, source_index
from ...tasks.task import Rejected, Symbol
from ...tasks.trees import read_text
from ..feature_deletion.import_time import Target, bound_names
from ..feature_deletion.statement import documentation_of, signature
from .history import Commit, GitHistory

MAX_FILES = 12
MAX_LINES = 1500
HEADER = re.compile(r"^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@", re.MULTILINE)
SAYS_NOTHING = re.compile(r"\s*(#.*|__version__\s*=.*|version\s*=.*)?\s*")
"""Lines that may stay when they were changed again: blank ones, comments and version numbers."""


@dataclass(frozen=True, eq=False)
class CommitChange:
    index: SourceIndex
    edits: dict[str, str | None]
    """From today's tree to the tree without the commit; None for a file that the commit added."""
    lines: dict[str, frozenset[int]]
    """Of today's files, from 1: what the commit wrote."""
    test_functions: frozenset[str]
    """`path::Class::name` of the tests that the commit added or changed."""

    @cached_property
    def earlier(self) -> dict[str, Module | None]:
        return {
            path: parse_module(path, text) if text is not None else None
            for path, text in self.edits.items()
            if path in self.index.sources
        }

    @cached_property
    def new(self) -> tuple[Symbol, ...]:
        """A new class stands for its methods."""
        found = [each.symbol for each in self._today if self._before(each) is None]
        return tuple(symbol for symbol in found if not any(_is_inside(symbol, other) for other in found))

    @cached_property
    def changed(self) -> tuple[Symbol, ...]:
        """Functions and methods."""
        both = ((each, self._before(each)) for each in self._today if each.kind != "class")
        return tuple(now.symbol for now, then in both if then is not None and _code(now) != _code(then))

    @property
    def symbols(self) -> tuple[Symbol, ...]:
        return (*self.new, *self.changed)

    @cached_property
    def functions(self) -> tuple[Symbol, ...]:
        members = (each.symbol for symbol in self.new for each in self.index.class_members(symbol))
        return (*self.symbols, *members)

    @cached_property
    def redescribed(self) -> tuple[Symbol, ...]:
        """Of the changed ones, those that say now something else about themselves."""
        changed = set(self.changed)
        return tuple(
            each.symbol
            for each in self._today
            if each.symbol in changed and self._description(each, True) != self._description(each, False)
        )

    @cached_property
    def missing_names(self) -> frozenset[Target]:
        """What a module merely imports is not its own, unless the module is the face of a package."""
        return frozenset(
            (path, name)
            for path, earlier in self.earlier.items()
            for name in _own_names(self.index.sources[path]) - (bound_names(earlier) if earlier else frozenset())
        )

    @cached_property
    def _today(self) -> tuple[Definition, ...]:
        """The first definition of each name."""
        return tuple(
            self.index.definitions[symbol][0] for symbol in self.index.definitions if symbol.file in self.earlier
        )

    def _before(self, definition: Definition) -> Definition | None:
        earlier = self.earlier[definition.symbol.file]
        found = earlier.definitions if earlier else ()
        return next((each for each in found if each.symbol == definition.symbol), None)

    def _description(self, definition: Definition, today: bool) -> tuple[str, str]:
        path = definition.symbol.file
        then = None if today else self._before(definition)
        module = self.earlier[path] if then is not None else self.index.sources[path]
        assert module is not None
        return signature(module, then or definition), documentation_of(then or definition)


def take_back(repository: Repository, history: GitHistory, commit: Commit, paths: list[str]) -> CommitChange:
    """Raises `Rejected` with the reason."""
    if len(paths) > MAX_FILES:
        raise Rejected("too_large", f"{commit.id} {len(paths)} files")
    edits: dict[str, str | None] = {}
    lines: dict[str, frozenset[int]] = {}
    for path in paths:
        if commit.changed[path] == "D" or not (repository.tree / path).is_file():
            raise Rejected("files_moved", f"{commit.id} {path}")
        after = history.text(commit.id, path)
        before = history.text(commit.parents[0], path) if commit.changed[path] == "M" else ""
        if after is None or before is None:
            raise Rejected("files_moved", f"{commit.id} {path} is no text")
        current = read_text(repository.tree, path)
        found = taken_back(current, after, before)
        if found is None or (commit.changed[path] == "A" and current != after):
            raise Rejected("changed_since", f"{commit.id} {path}")
        if found:
            edits[path] = apply(current, found) if commit.changed[path] == "M" else None
            written = (range(splice.start + 1, splice.end + 1) for splice in found)
            lines[path] = frozenset(itertools.chain.from_iterable(written))
    index = source_index(repository)
    try:
        change = CommitChange(index, edits, lines, _touched_tests(index, history, commit))
        functions = change.functions
    except SyntaxError as error:
        raise Rejected("changed_since", f"{commit.id} {error}") from error
    if not functions:
        raise Rejected("no_function", commit.id)
    if sum(map(len, lines.values())) > MAX_LINES:
        raise Rejected("too_large", f"{commit.id} {sum(map(len, lines.values()))} lines")
    return change


def _touched_tests(index: SourceIndex, history: GitHistory, commit: Commit) -> frozenset[str]:
    touched: set[str] = set()
    for path, kind in commit.changed.items():
        if kind == "D" or path not in index.tests or not path.endswith(".py"):
            continue
        after = _codes(path, history.text(commit.id, path))
        before = _codes(path, history.text(commit.parents[0], path)) if kind == "M" else {}
        touched |= {f"{path}::{name.replace('.', '::')}" for name, code in after.items() if before.get(name) != code}
    return frozenset(touched)


def _codes(path: str, text: str | None) -> dict[str, str]:
    try:
        definitions: Iterable[Definition] = parse_module(path, text or "").definitions
    except (SyntaxError, ValueError):
        return {}
    return {each.symbol.name: _code(each) for each in definitions if each.kind != "class"}


def _own_names(module: Module) -> frozenset[str]:
    imports = [node for node in ast.walk(module.tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    imported = {alias.asname or alias.name for node in imports for alias in node.names}
    return bound_names(module) - (frozenset() if module.is_package else imported)


def _code(definition: Definition) -> str:
    return ast.dump(definition.node)


def _is_inside(symbol: Symbol, other: Symbol) -> bool:
    return symbol.file == other.file and symbol.name.startswith(f"{other.name}.")


@dataclass(frozen=True)
class LineSplice:
    """Lines of a text, from 0 and without the end, and what takes their place."""

    start: int
    end: int
    lines: tuple[str, ...]


def lines_of(text: str) -> list[str]:
    """As git counts them: only at line feeds."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def splices(old: str, new: str) -> list[LineSplice]:
    """From `old` to `new`."""
    if old == new:
        return []
    git = shutil.which("git") or "git"
    with tempfile.TemporaryDirectory(prefix="recompose-") as scratch:
        files = [Path(scratch) / name for name in ("old", "new")]
        for file, text in zip(files, (old, new), strict=True):
            file.write_bytes(text.encode())
        options = ("--no-index", "--no-ext-diff", "--no-textconv", "--text", "--unified=0", "--histogram")
        told = subprocess.run(  # noqa: S603
            [git, "diff", *options, "--", *map(str, files)], capture_output=True, check=False
        )
    lines = lines_of(new)
    found: list[LineSplice] = []
    for header in HEADER.finditer(told.stdout.decode("utf-8", "replace")):
        start, count, begin, length = (1 if part is None else int(part) for part in header.groups())
        first = start - 1 if count else start
        from_line = begin - 1 if length else begin
        found.append(LineSplice(first, first + count, tuple(lines[from_line : from_line + length])))
    return found


def taken_back(current: str, after: str, before: str) -> list[LineSplice] | None:
    """What undoes the change from `before` to `after` in `current`; None where it was changed again."""
    place = _places(after, current)
    written, length = lines_of(after), len(lines_of(current))
    found: list[LineSplice] = []
    for splice in splices(after, before):
        moved = _moved(splice, place, len(written), length)
        if moved is not None:
            found.append(moved)
        elif not all(map(SAYS_NOTHING.fullmatch, (*written[splice.start : splice.end], *splice.lines))):
            return None
    return found


def apply(text: str, changes: Sequence[LineSplice]) -> str:
    lines = lines_of(text)
    for splice in sorted(changes, key=lambda each: each.start, reverse=True):
        lines[splice.start : splice.end] = splice.lines
    return "".join(lines)


def _places(old: str, new: str) -> dict[int, int]:
    """Line of `old` -> line of `new`, for the lines that stayed."""
    place: dict[int, int] = {}
    line = shift = 0
    total = len(lines_of(old))
    for splice in splices(old, new):
        place |= {number: number + shift for number in range(line, splice.start)}
        line, shift = splice.end, shift + len(splice.lines) - (splice.end - splice.start)
    return place | {number: number + shift for number in range(line, total)}


def _moved(splice: LineSplice, place: dict[int, int], old_length: int, new_length: int) -> LineSplice | None:
    """The splice where its lines stand now. One that only inserts needs its two neighbours next to each other."""
    if splice.start < splice.end:
        stands = [place.get(line) for line in range(splice.start, splice.end)]
        first = stands[0]
        if first is None or stands != list(range(first, first + len(stands))):
            return None
        return LineSplice(first, first + len(stands), splice.lines)
    above = -1 if splice.start == 0 else place.get(splice.start - 1)
    below = new_length if splice.start == old_length else place.get(splice.start)
    if above is None or below is None or below != above + 1:
        return None
    return LineSplice(below, below, splice.lines)
