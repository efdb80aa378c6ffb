"""Text that tells what was deleted: the same lines elsewhere, the same function under other names.

Reads texts, keeps what it computed of a text (a repository's files are scanned again for every task), writes nothing.
Lines are compared without white space, comment signs, prompts and diff signs: a commented, quoted or re-indented copy
is still a copy. Encoded, translated or paraphrased copies are not seen.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import lru_cache
from hashlib import sha256
from typing import NamedTuple

from composer_replication.syntax import parse

from ..tasks.symbols import FunctionNode

TWIN_LINES = 3
SMALLEST_TWIN_NODES = 25
"""A function with fewer syntax nodes is too common in form for its form to tell anything."""
DECORATION = " \t#>|+-*.\"'`,;:\\"
SHORTEST_LINE = 6
WORD = re.compile(r"[A-Za-z_]\w*")
MOST_FINGERPRINTS = 50_000
Shingle = tuple[str, ...]
_known_fingerprints: dict[str, tuple[str, str] | None] = {}


@dataclass(frozen=True)
class Line:
    number: int
    text: str


@dataclass(frozen=True)
class TextFacts:
    """What the checks need of one file, computed once per text."""

    lines: tuple[Line, ...]
    line_set: frozenset[str]
    words: frozenset[str]
    doctest_words: frozenset[str]


class FunctionFacts(NamedTuple):
    line: int
    body: range
    """Lines of the body without its docstring."""
    prints: tuple[str, str] | None
    """Of the syntax as written, and with names replaced by the order in which they first occur."""


@dataclass(frozen=True)
class CodeFacts:
    """What the syntax of one Python file tells."""

    definitions: frozenset[str]
    functions: Mapping[str, FunctionFacts]
    exact: Mapping[str, int]
    """Fingerprint -> line."""
    renamed: Mapping[str, int]
    prose: frozenset[int]
    """Lines of docstrings."""


def significant(line: str) -> str:
    """The line as it is compared; empty where it says too little (`else:`, `return result`, a bracket, one name)."""
    squeezed = "".join(line.removesuffix('\\n",').removesuffix('\\n"').split("  # ", 1)[0].split()).strip(DECORATION)
    return "" if len(squeezed) < SHORTEST_LINE or squeezed.isidentifier() else squeezed


def significant_lines(text: str) -> tuple[Line, ...]:
    numbered = ((number, significant(line)) for number, line in enumerate(text.splitlines(), 1))
    return tuple(Line(number, line) for number, line in numbered if line)


@lru_cache(maxsize=4096)
def text_facts(text: str) -> TextFacts:
    lines = significant_lines(text)
    doctests = "\n".join(line for line in text.splitlines() if line.lstrip().startswith(">>>")) if ">>>" in text else ""
    return TextFacts(
        lines, frozenset(line.text for line in lines), frozenset(WORD.findall(text)), frozenset(WORD.findall(doctests))
    )


@lru_cache(maxsize=4096)
def code_facts(text: str) -> CodeFacts | None:
    """None where the text is no Python."""
    try:
        tree = parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return None
    raw = text.splitlines()
    functions: dict[str, FunctionFacts] = {}
    names: set[str] = set()
    prose = set(docstring_lines(tree))
    for name, node in definitions(tree):
        names.add(name)
        prose.update(docstring_lines(node))
        if not isinstance(node, ast.ClassDef) and name not in functions:
            body = body_without_docstring(node)
            lines = range(body[0].lineno, (body[-1].end_lineno or 0) + 1) if body else range(0)
            source = "\n".join(raw[node.lineno - 1 : node.end_lineno])
            functions[name] = FunctionFacts(node.lineno, lines, known_fingerprints(source, node))
    prints = [(facts.prints, facts.line) for facts in functions.values() if facts.prints is not None]
    return CodeFacts(
        definitions=frozenset(names),
        functions=functions,
        exact={print_[0]: line for print_, line in reversed(prints)},
        renamed={print_[1]: line for print_, line in reversed(prints)},
        prose=frozenset(prose),
    )


def docstring_lines(node: FunctionNode | ast.ClassDef | ast.Module) -> range:
    if ast.get_docstring(node, clean=False) is None:
        return range(0)
    return range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1)


def known_fingerprints(source: str, node: FunctionNode) -> tuple[str, str] | None:
    """By the function's text: an edited file shares all its other functions with the original."""
    if source not in _known_fingerprints:
        if len(_known_fingerprints) >= MOST_FINGERPRINTS:
            _known_fingerprints.clear()
        _known_fingerprints[source] = fingerprints(node)
    return _known_fingerprints[source]


def definitions(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, FunctionNode | ast.ClassDef]]:
    """Functions and classes with their qualified names, nested ones too."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, FunctionNode | ast.ClassDef):
            yield f"{prefix}{node.name}", node
            yield from definitions(node, f"{prefix}{node.name}.")
        elif isinstance(node, ast.stmt | ast.excepthandler | ast.match_case):
            yield from definitions(node, prefix)


def body_without_docstring(node: FunctionNode | ast.ClassDef | ast.Module) -> list[ast.stmt]:
    return node.body[1:] if ast.get_docstring(node, clean=False) is not None else node.body


def fingerprints(node: FunctionNode) -> tuple[str, str] | None:
    """Of the arguments and the body as written, and with renamed names; None for a function that is too small."""
    exact: list[str] = []
    renamed: list[str] = []
    places: dict[str, str] = {}

    def visit(value: object) -> None:
        if isinstance(value, ast.AST):
            kind = type(value).__name__
            exact.append(kind)
            renamed.append(kind)
            for field, inner in ast.iter_fields(value):
                if field in ("ctx", "type_comment", "annotation", "returns", "kind"):
                    continue
                if field in ("id", "arg") and isinstance(inner, str):
                    exact.append(inner)
                    renamed.append(places.setdefault(inner, f"${len(places)}"))
                else:
                    visit(inner)
        elif isinstance(value, list):
            for inner in value:  # pyright: ignore[reportUnknownVariableType]
                visit(inner)
        elif value is not None:
            exact.append(repr(value))
            renamed.append(repr(value))

    visit(node.args)
    visit(body_without_docstring(node))
    if len(exact) < SMALLEST_TWIN_NODES:
        return None
    return digest(exact), digest(renamed)


def digest(parts: Sequence[str]) -> str:
    return sha256("\x1f".join(parts).encode("utf-8", "replace")).hexdigest()


@lru_cache(maxsize=1024)
def code_lines(text: str) -> tuple[Line, ...]:
    """Significant lines of a Python text without docstrings and comments: prose is specification, code is solution."""
    facts = code_facts(text)
    if facts is None:
        return text_facts(text).lines
    raw = text.splitlines()
    return tuple(
        line
        for line in text_facts(text).lines
        if line.number not in facts.prose and not raw[line.number - 1].lstrip().startswith("#")
    )


def removed_runs(original: str, current: str | None) -> list[list[Line]]:
    """Runs of code lines that `original` has and `current` has not: in the file as a whole, and function by function,
    because a copy further down would pass for the moved original."""
    after_text = current if current is not None else ""
    runs = lost_lines(code_lines(original), code_lines(after_text))
    before, after = code_facts(original), code_facts(after_text)
    for name, function in before.functions.items() if before and after else ():
        left = after.functions.get(name) if after else None
        if left is None or left.prints is None or left.prints != function.prints:
            runs += lost_lines(
                lines_within(original, function.body), lines_within(after_text, left.body if left else ())
            )
    return runs


def lines_within(text: str, numbers: Container[int]) -> tuple[Line, ...]:
    return tuple(line for line in code_lines(text) if line.number in numbers)


def lost_lines(before: tuple[Line, ...], after: tuple[Line, ...]) -> list[list[Line]]:
    head = 0
    while head < min(len(before), len(after)) and before[head].text == after[head].text:
        head += 1
    tail = 0
    while tail < min(len(before), len(after)) - head and before[-1 - tail].text == after[-1 - tail].text:
        tail += 1
    old, new = before[head : len(before) - tail], after[head : len(after) - tail]
    matcher = SequenceMatcher(None, [line.text for line in old], [line.text for line in new], autojunk=False)
    blocks = matcher.get_matching_blocks()
    starts = [0, *(block.a + block.size for block in blocks)]
    return [list(old[start : block.a]) for start, block in zip(starts, blocks, strict=False) if start < block.a]


def shingles(run: Sequence[Line]) -> Iterator[Shingle]:
    texts = [line.text for line in run]
    for start in range(len(texts) - TWIN_LINES + 1):
        yield tuple(texts[start : start + TWIN_LINES])


def first_twin(facts: TextFacts, wanted: Mapping[str, Sequence[Shingle]]) -> Line | None:
    """Where one of the shingles, keyed by their first lines, stands in a text."""
    if facts.line_set.isdisjoint(wanted):
        return None
    texts = [line.text for line in facts.lines]
    for place, text in enumerate(texts):
        for shingle in wanted.get(text, ()):
            if tuple(texts[place : place + len(shingle)]) == shingle:
                return facts.lines[place]
    return None


def by_first_line(all_shingles: Iterator[Shingle]) -> dict[str, list[Shingle]]:
    keyed: dict[str, list[Shingle]] = {}
    for shingle in dict.fromkeys(all_shingles):
        keyed.setdefault(shingle[0], []).append(shingle)
    return keyed


def deleted_functions(original: str, current: str | None) -> Iterator[tuple[str, tuple[str, str]]]:
    """Name and fingerprints of the functions whose body `current` no longer has under the same name."""
    before, after = code_facts(original), code_facts(current) if current is not None else None
    for name, function in before.functions.items() if before else ():
        left = after.functions.get(name) if after else None
        if function.prints is not None and (left is None or left.prints != function.prints):
            yield name, function.prints


def function_lines(text: str, name: str) -> Shingle:
    """The significant body lines of one function, as they would stand in a copy; empty where there is none."""
    facts = code_facts(text)
    function = facts.functions.get(name) if facts else None
    return tuple(line.text for line in lines_within(text, function.body)) if function else ()
