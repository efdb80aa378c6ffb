"""Solutions that are not the true one, where a short description often leaves a choice open.

Pure but for reading the repository: the true solution with another special case or boundary, or with another text or
number where neither the statement nor the source next to it tells the true one.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import zip_longest
from random import Random

from ..generators.bug_injection.operators import mutations
from ..generators.bug_injection.source import SourceText, Splice, inside, read_source
from ..tasks.symbols import FunctionNode
from ..tasks.task import Candidate, Symbol
from .gates import Bench, Split

MAX_LITERALS = 4
MAX_CHOICES = 4
MAX_CHOICES_OF_MANY = 12
TRIED_ONE_IN = 3
"""Of the choices of a large feature."""
CHOICES = ("drop_branch", "off_by_one", "remove_early_return", "drop_exception_handling")
"""Operators that change what a short description often leaves open."""
OBVIOUS = (0, 1, -1, 2, "", " ", True, False, None)


@dataclass(frozen=True)
class Variant:
    """A solution that is not the true one."""

    path: str
    text: str
    literal: str | int | float | None = None
    """What it writes differently, where nothing tells it."""


def variants(candidate: Candidate, split: Split, bench: Bench, seed: int) -> list[Variant]:
    """A draw of untold texts and numbers, then one of other choices, of each function in turn."""
    seen = "\n".join([candidate.statement["L0"], *_remaining_texts(split, bench)])
    draw = Random(f"{seed} {candidate.name}")
    literals: list[Variant] = []
    choices: list[list[Variant]] = []
    for path in sorted({symbol.file for symbol in candidate.symbols}):
        source = read_source(bench.original(path))
        for function in _functions(source, candidate.symbols, path) if source else ():
            assert source is not None
            lines = candidate.solution_lines.get(path)
            literals += _literal_variants(path, source, function, seen, lines)
            own = [Variant(path, text) for text in _choices(source, function, lines)]
            choices.append(draw.sample(own, len(own)))
    draw.shuffle(literals)
    draw.shuffle(choices)
    turns = [each for turn in zip_longest(*choices) for each in turn if each is not None]
    tried = max(MAX_CHOICES, min(MAX_CHOICES_OF_MANY, len(turns) // TRIED_ONE_IN))
    return [*literals[:MAX_LITERALS], *turns[:tried]]


def _choices(source: SourceText, function: FunctionNode, lines: Collection[int] | None) -> Iterator[str]:
    splices = [splice for operator in CHOICES for splice, _ in mutations(source, function, operator)]
    for splice in (*splices, *_without_entries(source, function)):
        text = source.apply(splice)
        if text is not None and (lines is None or source.content.count(b"\n", 0, splice.start) + 1 in lines):
            yield text


def _without_entries(source: SourceText, function: FunctionNode) -> Iterator[Splice]:
    """Of tables in the function: what one treats, and its neighbours do not."""
    for node in inside(function):
        for key, value in zip(node.keys, node.values, strict=True) if isinstance(node, ast.Dict) else ():
            if key is None:
                continue
            after = source.content[source.end(value) :].lstrip()[:1] == b","
            end = source.content.index(b",", source.end(value)) + 1 if after else source.end(value)
            yield Splice(source.start(key), end, b"")


def _remaining_texts(split: Split, bench: Bench) -> Iterator[str]:
    """What the agent still has of the files that were edited, and of their neighbours."""
    folders = {path.rpartition("/")[0] for path in split.edits}
    for path in bench.repository.source_files:
        if path.rpartition("/")[0] in folders:
            yield (split.edits[path] if path in split.edits else bench.original(path)) or ""
    yield from (text for path, text in split.edits.items() if text and path in bench.repository.test_files)


def _functions(source: SourceText, symbols: Collection[Symbol], path: str) -> Iterator[FunctionNode]:
    names = {symbol.name for symbol in symbols if symbol.file == path}
    for name, function in source.functions.items():
        if name in names or any(name.startswith(f"{each}.") for each in names):
            yield function


def _literal_variants(
    path: str, source: SourceText, function: FunctionNode, seen: str, lines: Collection[int] | None
) -> Iterator[Variant]:
    for node in inside(function):
        if not isinstance(node, ast.Constant) or (lines is not None and node.lineno not in lines):
            continue
        value = node.value
        if isinstance(value, bool) or not isinstance(value, str | int | float) or value in OBVIOUS:
            continue
        if is_told(value, seen):
            continue
        changed = f"{value}~" if isinstance(value, str) else value + 1
        text = source.apply(source.replace(node, repr(changed)))
        if text is not None:
            yield Variant(path, text, value)


def is_told(value: str | int | float, seen: str) -> bool:
    """Whether a text or number stands in what the agent can read; of a longer text, every line of it."""
    if isinstance(value, str):
        return all(line.strip() in seen for line in value.splitlines())
    return re.search(rf"(?<![\w.]){re.escape(repr(value))}(?![\w.]*\d)", seen) is not None
