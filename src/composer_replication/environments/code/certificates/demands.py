"""What a test needs by its own text that nobody could guess: names, texts and kinds of exceptions.

Pure: from syntax trees and texts to facts. A name is asked for where the deleted source has it, the test uses it as an
attribute or keyword and nothing that is left says it; a text likewise where the test spells it out. An attribute that
the deleted source sets, and a keyword of a call of what was deleted, have to stand in the statement. A built-in kind of
exception has to stand in the description of what raises it, since any of them could be meant, and an example of one
error says nothing of another; one of the package may stand in the source. What a test brings from outside (`pickle`, a
type) has to stand in the statement or in the edited files, and `@property` and its like in the statement. A test that
hands over a class of its own asks how subclasses, or objects with such special methods, are treated.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from ..generators.feature_deletion.statement import EXAMPLES

SHORTEST_TEXT = 4
PLACEHOLDER = re.compile(r"%\(?\w*\)?[-+ #0-9.]*[a-zA-Z]|\{[^{}]*\}|\n")
TOOLS = frozenset({
    "pytest", "unittest", "mock", "patch", "sys", "os", "re", "itertools", "functools", "operator", "random", "math",
    "asyncio", "tempfile", "textwrap",
})  # fmt: skip
"""Of tests, which say nothing of what is tested."""
PLAIN_BASES = frozenset(("", "object", "TestCase", "Exception"))
PLAIN_METHODS = frozenset(("__init__", "__repr__", "__str__"))
SPECIAL = re.compile(r"__\w+__")
KINDS_OF_METHODS = frozenset(("property", "classmethod", "staticmethod"))
BLOCK_START = re.compile(r"^### |^From the documentation:", re.MULTILINE)
WORD = re.compile(r"[^\W\d]\w*")
BUILTIN_EXCEPTIONS = frozenset(
    name for name, value in vars(builtins).items() if isinstance(value, type) and issubclass(value, BaseException)
)


@dataclass(frozen=True)
class Told:
    """What the agent can read."""

    statement: str
    left: str
    """Of the repository: source, visible tests and documentation."""
    near: str = ""
    """Of that, the files that were edited."""

    @cached_property
    def statement_words(self) -> frozenset[str]:
        return frozenset(WORD.findall(self.statement))

    @cached_property
    def blocks(self) -> list[frozenset[str]]:
        """Words of what is said of one symbol, and of what documents say; not of examples."""
        parts = BLOCK_START.split(self.statement.partition(EXAMPLES)[0])
        return [frozenset(WORD.findall(part)) for part in parts]

    @cached_property
    def near_words(self) -> frozenset[str]:
        return self.statement_words | frozenset(WORD.findall(self.near))

    @cached_property
    def words(self) -> frozenset[str]:
        return self.statement_words | frozenset(WORD.findall(self.left))


class Untold:
    """What the deleted nodes know and nothing tells."""

    def __init__(self, deleted: Iterable[ast.AST], told: Told) -> None:
        gone = list(deleted)
        self._told = told
        self._symbols = {name for node in gone if (name := getattr(node, "name", ""))}
        known = {name for node in gone for name in _identifiers(node)}
        self._names = (known - told.words) | (
            {name for node in gone for name in _set_names(node)} - told.statement_words
        )
        self._keywords = known - told.statement_words
        pieces = {piece for node in gone for text in _texts(node) for piece in fixed_parts(text)}
        self.texts = {piece for piece in pieces if piece not in told.statement and piece not in told.left}

    def asked_by(self, nodes: Iterable[ast.AST], outside: Mapping[str, str]) -> frozenset[str]:
        """Of that, what a test of these nodes needs, and kinds of exceptions and things from outside that nothing
        tells."""
        test = list(nodes)
        spelled = "\n".join(text for node in test for text in _texts(node))
        names = {name for node in test for name in _asked_names(node)} & self._names
        names |= {name for node in test for name in self._handed_over(node)} & self._keywords
        texts = {repr(piece) for piece in self.texts if piece in spelled}
        kinds = {fact for node in test for fact in self._untold_kinds(node, getattr(test[0], "name", "a test"))}
        brought = {name for node in test for name in _brought(node, outside) if name not in self._told.near_words}
        special = {name for node in test for name in (*_kinds_of_methods(node), *_own_classes(node))}
        brought |= {name for name in special if not self._told.statement_words.issuperset(WORD.findall(name))}
        return frozenset(names | texts | kinds | brought)

    def _handed_over(self, node: ast.AST) -> Iterator[str]:
        """Keywords of calls of what was deleted."""
        for each in ast.walk(node):
            if isinstance(each, ast.Call) and _last_name(each.func) in self._symbols:
                yield from (keyword.arg for keyword in each.keywords if keyword.arg)

    def _untold_kinds(self, node: ast.AST, test: str) -> Iterator[str]:
        for name, where in _expected_exceptions(node):
            raising = {*_identifiers(where)} & self._symbols
            if name not in BUILTIN_EXCEPTIONS:
                if name.endswith(("Error", "Exception")) and name not in self._told.words:
                    yield name
            elif not raising and name not in self._told.statement_words:
                yield name
            elif raising and not any(name in block and raising & block for block in self._told.blocks):
                yield f"{name} in {test}"


def from_outside(tree: ast.Module, packages: Collection[str]) -> dict[str, str]:
    """Names that a test module imports from neither the packages nor its neighbours, with their own names."""
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.level or _top(node.module or "") in {*packages, *TOOLS}):
            continue
        for alias in node.names if isinstance(node, ast.Import | ast.ImportFrom) else ():
            if _top(alias.name) not in {*packages, *TOOLS, "tests"}:
                found[alias.asname or _top(alias.name)] = alias.name.rpartition(".")[2]
    return found


def fixed_parts(text: str) -> Iterator[str]:
    """What stands between the placeholders of a message, where it holds a word."""
    for part in PLACEHOLDER.split(text):
        if len(part.strip()) >= SHORTEST_TEXT and WORD.search(part):
            yield part.strip()


def _expected_exceptions(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Names of kinds, with the statement or call that is to raise them."""
    for each in ast.walk(node):
        if isinstance(each, ast.With | ast.AsyncWith):
            for item in each.items:
                yield from ((name, each) for name in _kinds_of_call(item.context_expr))
        elif isinstance(each, ast.Call):
            yield from ((name, each) for name in _kinds_of_call(each) if len(each.args) > 1)
        elif isinstance(each, ast.Try):
            yield from ((name, each) for handler in each.handlers for name in _kinds(handler.type))
        elif isinstance(each, ast.Assign):
            yield from ((name, each) for name in _kinds_of_call(each.value))  # a name for it, as in SE = raises(…)


def _kinds_of_call(node: ast.expr) -> Iterator[str]:
    if isinstance(node, ast.Call) and node.args and "raises" in _last_name(node.func).lower():
        yield from _kinds(node.args[0])


def _kinds(node: ast.expr | None) -> Iterator[str]:
    for kind in node.elts if isinstance(node, ast.Tuple) else [node]:
        if kind is not None and (name := _last_name(kind)):
            yield name


def _brought(node: ast.AST, outside: Mapping[str, str]) -> Iterator[str]:
    for each in ast.walk(node):
        if isinstance(each, ast.Name) and each.id in outside:
            yield outside[each.id]


def _kinds_of_methods(node: ast.AST) -> frozenset[str]:
    decorators = (name for each in ast.walk(node) for name in getattr(each, "decorator_list", ()))
    return KINDS_OF_METHODS & set(map(_last_name, decorators))


def _own_classes(node: ast.AST) -> Iterator[str]:
    for each in ast.walk(node):
        if isinstance(each, ast.ClassDef):
            yield from (f"subclass of {name}" for base in each.bases if (name := _last_name(base)) not in PLAIN_BASES)
            names = (getattr(member, "name", "") for member in each.body)
            yield from (name for name in names if SPECIAL.fullmatch(name) and name not in PLAIN_METHODS)


def _top(dotted: str) -> str:
    return dotted.partition(".")[0]


def _last_name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _asked_names(node: ast.AST) -> Iterator[str]:
    for each in ast.walk(node):
        if isinstance(each, ast.Attribute):
            yield each.attr
        elif isinstance(each, ast.keyword) and each.arg:
            yield each.arg


def _set_names(node: ast.AST) -> Iterator[str]:
    return (each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Store))


def _identifiers(node: ast.AST) -> Iterator[str]:
    yield from _asked_names(node)
    for each in ast.walk(node):
        if isinstance(each, ast.Name):
            yield each.id
        elif isinstance(each, ast.arg):
            yield each.arg
        elif isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield each.name
        elif isinstance(each, ast.Constant) and isinstance(each.value, str) and each.value.isidentifier():
            yield each.value  # as in getattr


def _texts(node: ast.AST) -> Iterator[str]:
    return (each.value for each in ast.walk(node) if isinstance(each, ast.Constant) and isinstance(each.value, str))
