"""Solutions that are not the true one, where a short description often leaves a choice open.

Pure but for reading the repository: the true solution with another special case or boundary, or with another text or
number where neither the statement nor the source next to it tells the true one.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from random import Random

from composer_replication.syntax import Splice

from ..generators.bug_injection.operators import mutations
from ..generators.bug_injection.source import SourceText, inside, read_source
from ..tasks.symbols import FunctionNode, is_special
from ..tasks.task import Candidate, Rejected
from .gates import Bench, Split

MAX_LITERALS = 4
MAX_CHOICES = 16
MAX_UNDESCRIBED = 24
"""Choices in functions that nothing describes: as many cannot be shown by a few examples."""
CHOICES = ("drop_branch", "off_by_one", "remove_early_return", "drop_exception_handling")
"""Operators that change what a short description often leaves open."""
OBVIOUS = (0, 1, -1, 2, "", " ", True, False, None)
LAID_OUT = re.compile(r"\S(?:\s{2,}|\n)\S|^\s*\n\s*\S|^\s{2,}\S")
"""A text whose white space is more than one space between words."""
MAX_LAID_OUT_LINES = 3
"""Longer texts are templates, which a statement may indent as it likes."""
Literal = str | int | float
Place = tuple[str, str]
"""File and qualified name."""


@dataclass(frozen=True)
class Variant:
    """A solution that is not the true one."""

    path: str
    text: str
    literal: Literal | None = None
    """What it writes differently, where nothing tells it."""


def variants(candidate: Candidate, split: Split, bench: Bench, seed: int) -> list[Variant]:
    """A draw of untold texts and numbers, then one of other choices, of each function in turn. Raises `Rejected` where
    functions that nothing describes leave more choices open than examples can tell."""
    seen = "\n".join([candidate.statement["L0"], *_remaining_texts(split, bench)])
    draw = Random(f"{seed} {candidate.name}")
    literals: list[Variant] = []
    choices: dict[Place, list[Variant]] = {}
    functions = feature_functions(candidate, bench)
    for (path, name), function in functions.items():
        source, lines = _source(path, bench), candidate.solution_lines.get(path)
        literals += _literal_variants(path, source, function, seen, lines)
        own = [Variant(path, text) for text in _choices(source, function, lines)]
        choices[path, name] = draw.sample(own, len(own))
    unsaid = functions.keys() - described(functions, candidate.statement["L0"])
    if (open_choices := sum(len(choices[each]) for each in unsaid)) > MAX_UNDESCRIBED:
        raise Rejected("undocumented", f"{open_choices} choices in {len(unsaid)} functions that nothing describes")
    draw.shuffle(literals)
    order = draw.sample(sorted(choices), len(choices))
    order.sort(key=lambda each: each not in unsaid)
    turns = [each for turn in zip_longest(*(choices[each] for each in order)) for each in turn if each is not None]
    return [*literals[:MAX_LITERALS], *turns[:MAX_CHOICES]]


def feature_functions(candidate: Candidate, bench: Bench) -> dict[Place, FunctionNode]:
    """Methods of its classes among them."""
    found: dict[Place, FunctionNode] = {}
    for path in sorted({symbol.file for symbol in candidate.symbols}):
        names = {symbol.name for symbol in candidate.symbols if symbol.file == path}
        for name, function in _source(path, bench).functions.items():
            if name in names or any(name.startswith(f"{each}.") for each in names):
                found[path, name] = function
    return found


def _source(path: str, bench: Bench) -> SourceText:
    return read_source(bench.original(path)) or SourceText("")


def described(functions: Mapping[Place, FunctionNode], statement: str) -> frozenset[Place]:
    """Those whose docstring the statement holds, special methods, and private ones that described
    ones use."""
    found = {key for key, function in functions.items() if _is_quoted(function, statement) or is_special(function.name)}
    private = {key for key in functions.keys() - found if key[1].rpartition(".")[2].startswith("_")}
    while used := {key for key in private if any(_uses(functions[each], key[1]) for each in found)}:
        found |= used
        private -= used
    return frozenset(found)


def _is_quoted(function: FunctionNode, statement: str) -> bool:
    docstring = ast.get_docstring(function)
    return bool(docstring) and docstring.splitlines()[0].strip() in statement


def _uses(function: FunctionNode, name: str) -> bool:
    short = name.rpartition(".")[2]
    return any(short in (getattr(node, "id", ""), getattr(node, "attr", "")) for node in ast.walk(function))


def _choices(source: SourceText, function: FunctionNode, lines: Collection[int] | None) -> Iterator[str]:
    splices = [splice for operator in CHOICES for splice, _ in mutations(source, function, operator)]
    for splice in (*splices, *_without_conditions(source, function), *_without_entries(source, function)):
        text = source.apply(splice)
        if text is not None and (lines is None or source.content.count(b"\n", 0, splice.start) + 1 in lines):
            yield text


def _without_conditions(source: SourceText, function: FunctionNode) -> Iterator[Splice]:
    """One part of a condition, a filter or the choice between two values left out; not in a loop that may not end."""
    endless = {id(inner) for node in ast.walk(function) if isinstance(node, ast.While) for inner in ast.walk(node)}
    for node in inside(function):
        if id(node) in endless:
            continue
        if isinstance(node, ast.BoolOp):
            word = b" and " if isinstance(node.op, ast.And) else b" or "
            parts = [b"(" + source.code(value) + b")" for value in node.values]
            for left_out in range(len(parts)):
                rest = word.join(parts[:left_out] + parts[left_out + 1 :])
                yield source.replace(node, b"(" + rest + b")")
        elif isinstance(node, ast.comprehension):
            yield from (source.replace(condition, "True") for condition in node.ifs)
        elif isinstance(node, ast.IfExp):
            yield from (source.replace(node, b"(" + source.code(value) + b")") for value in (node.body, node.orelse))


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
            yield (split.edits[path] if path in split.edits else bench.readable(path)) or ""
    yield from (text for path, text in split.edits.items() if text and path in bench.repository.test_files)


def _literal_variants(
    path: str, source: SourceText, function: FunctionNode, seen: str, lines: Collection[int] | None
) -> Iterator[Variant]:
    for node in inside(function):
        if not isinstance(node, ast.Constant) or (lines is not None and node.lineno not in lines):
            continue
        value = node.value
        if isinstance(value, bool) or not isinstance(value, str | int | float) or value in OBVIOUS:
            continue
        if not is_told(value, seen):
            changed = f"{value}~" if isinstance(value, str) else value + 1
        elif isinstance(value, str) and _is_laid_out(value) and not _is_spelled(value, seen):
            changed = " ".join(value.split())
        else:
            continue
        text = source.apply(source.replace(node, repr(changed)))
        if text is not None:
            yield Variant(path, text, value)


def _is_laid_out(text: str) -> bool:
    return text.strip().count("\n") < MAX_LAID_OUT_LINES and LAID_OUT.search(text) is not None


def _is_spelled(text: str, seen: str) -> bool:
    """Also as a literal of it."""
    return text in seen or repr(text)[1:-1] in seen


def is_told(value: str | int | float, seen: str) -> bool:
    """Whether a text or number stands in what the agent can read; of a longer text, every line of it."""
    if isinstance(value, str):
        return all(line.strip() in seen for line in value.splitlines())
    return re.search(rf"(?<![\w.]){re.escape(repr(value))}(?![\w.]*\d)", seen) is not None
