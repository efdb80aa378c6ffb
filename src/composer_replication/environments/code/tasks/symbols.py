"""What a repository defines and mentions, from its text alone: modules, definitions, sizes and references.

Reads the Python files of the packages and of the tests, each once per repository; a file that does not parse as
Python 3 is left alone. Nothing is imported or run, so names that only exist at run time are not known here.
"""

from __future__ import annotations

import ast
import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate
from pathlib import PurePosixPath
from typing import Literal

from composer_replication.syntax import parse

from .loading import is_test_path
from .repository import Repository
from .task import Symbol
from .trees import files_of, read_text

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
DefinitionNode = FunctionNode | ast.ClassDef
Kind = Literal["function", "method", "class"]
BRANCHES = (
    ast.If, ast.For, ast.AsyncFor, ast.While, ast.ExceptHandler, ast.IfExp, ast.BoolOp, ast.comprehension,
    ast.match_case, ast.Assert,
)  # fmt: skip
LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+\Z")
"""A line as Python's parser counts it, with its end; `str.splitlines` also splits at form feeds and the like."""
WORD = re.compile(r"[^\W\d]\w*")


@dataclass(frozen=True, eq=False)
class Definition:
    """One `def` or `class`, at the top of a module or of a class, whatever `if` or `try` it stands in."""

    symbol: Symbol
    kind: Kind
    node: DefinitionNode
    owner: ast.ClassDef | None
    body_lines: int
    """Lines of code: no docstring, no comments, no blank lines."""

    @property
    def short_name(self) -> str:
        return self.node.name

    @cached_property
    def mentions(self) -> frozenset[str]:
        """Names and attributes that its source uses, its own name not counted."""
        return frozenset(_mentioned(self.node))

    @cached_property
    def values_used(self) -> frozenset[str]:
        """Of those, the ones that it uses otherwise than by calling them: `isinstance(x, Name)`, `key=name`."""
        called = {id(node.func) for node in ast.walk(self.node) if isinstance(node, ast.Call)}
        return frozenset(
            node.id if isinstance(node, ast.Name) else node.attr
            for node in ast.walk(self.node)
            if isinstance(node, ast.Name | ast.Attribute) and id(node) not in called
        )

    @cached_property
    def runs_when_called(self) -> bool:
        """Whether a call runs code of the definition: not so for a generator, nor a class without a constructor."""
        if isinstance(self.node, ast.ClassDef):
            return any(each.name in ("__init__", "__new__") for each in definition_nodes(self.node.body))
        return not any(isinstance(each, ast.Yield | ast.YieldFrom) for each in ast.walk(self.node))

    @cached_property
    def decorators(self) -> tuple[str, ...]:
        """As written, without arguments."""
        nodes = (node.func if isinstance(node, ast.Call) else node for node in self.node.decorator_list)
        return tuple(ast.unparse(node) for node in nodes)

    @property
    def cyclomatic(self) -> int:
        return 1 + sum(isinstance(node, BRANCHES) for node in ast.walk(self.node))


@dataclass(frozen=True, eq=False)
class Module:
    path: str
    text: str
    lines: tuple[str, ...]
    tree: ast.Module

    @property
    def is_package(self) -> bool:
        return PurePosixPath(self.path).name == "__init__.py"

    @property
    def folder(self) -> str:
        return PurePosixPath(self.path).parent.as_posix()

    @cached_property
    def line_starts(self) -> tuple[int, ...]:
        """Offset of every line, and of the end of the text."""
        return tuple(accumulate(map(len, self.lines), initial=0))

    def line_at(self, offset: int) -> int:
        """Counted from 1."""
        return bisect_right(self.line_starts, offset)

    @cached_property
    def words(self) -> frozenset[str]:
        """Every identifier-like word of the text, strings and comments included: a quick test before a slow one."""
        return frozenset(WORD.findall(self.text))

    @cached_property
    def definitions(self) -> tuple[Definition, ...]:
        return tuple(_definitions(self))

    @cached_property
    def lazy_annotations(self) -> bool:
        return any(
            isinstance(node, ast.ImportFrom)
            and node.module == "__future__"
            and any(alias.name == "annotations" for alias in node.names)
            for node in self.tree.body
        )


class SourceIndex:
    """The modules of a repository by path, and its definitions by symbol."""

    def __init__(self, repository: Repository) -> None:
        self.repository = repository
        sources = set(repository.source_files)
        self.sources: dict[str, Module] = {}
        self.tests: dict[str, Module] = {}
        for path in files_of(repository.tree):
            belongs = self.sources if path in sources else self.tests if is_test_path(path) else None
            if belongs is not None and path.endswith(".py"):
                module = read_module(repository, path)
                if module is not None:
                    belongs[path] = module

    @cached_property
    def modules(self) -> dict[str, Module]:
        return self.sources | self.tests

    @cached_property
    def definitions(self) -> dict[Symbol, tuple[Definition, ...]]:
        """Of the packages. More than one definition per symbol: overloads, property setters, branches."""
        found: dict[Symbol, list[Definition]] = {}
        for module in self.sources.values():
            for definition in module.definitions:
                found.setdefault(definition.symbol, []).append(definition)
        return {symbol: tuple(several) for symbol, several in found.items()}

    @cached_property
    def functions(self) -> tuple[Definition, ...]:
        return tuple(several[0] for several in self.definitions.values() if several[0].kind != "class")

    @cached_property
    def mentioned_by(self) -> dict[str, frozenset[Symbol]]:
        """Short name -> functions and methods of the packages whose source uses it."""
        found: dict[str, set[Symbol]] = {}
        for definition in self.functions:
            for name in definition.mentions:
                found.setdefault(name, set()).add(definition.symbol)
        return {name: frozenset(symbols) for name, symbols in found.items()}

    @cached_property
    def mentioned_at_import(self) -> frozenset[str]:
        """Names used by the code of the packages outside of functions: what runs while a module is imported."""
        return frozenset(
            name for module in self.sources.values() for name in _mentioned(module.tree, into_functions=False)
        )

    @cached_property
    def mentioned_by_configuration(self) -> frozenset[str]:
        """Words of every `conftest.py`: a fixture that breaks takes unrelated tests with it."""
        shared = (module for path, module in self.tests.items() if PurePosixPath(path).name == "conftest.py")
        return frozenset(word for module in shared for word in module.words)

    def class_members(self, symbol: Symbol) -> tuple[Definition, ...]:
        prefix = f"{symbol.name}."
        return tuple(
            definition
            for definition in self.functions
            if definition.symbol.file == symbol.file and definition.symbol.name.startswith(prefix)
        )

    def find_module(self, importer: Module, level: int, dotted: str) -> str | None:
        """Path of the module that `from <level dots><dotted> import …` names in `importer`; None if not of ours."""
        parts = dotted.split(".") if dotted else []
        if level:
            folder = PurePosixPath(importer.folder)
            for _ in range(level - 1):
                folder = folder.parent
            return self._module_at(folder, parts)
        roots = [*self.repository.source_roots, "."]
        if importer.path in self.tests:
            roots.append(importer.folder)
        found = (self._module_at(PurePosixPath(root), parts) for root in roots)
        return next((path for path in found if path is not None), None)

    def submodule(self, package: str, name: str) -> str | None:
        if PurePosixPath(package).name != "__init__.py":
            return None
        return self._module_at(PurePosixPath(package).parent, [name])

    def _module_at(self, folder: PurePosixPath, parts: list[str]) -> str | None:
        base = folder.joinpath(*parts)
        candidates = [(base / "__init__.py").as_posix()]
        if parts:
            candidates.insert(0, f"{base.as_posix()}.py")
        return next((path for path in candidates if path in self.modules), None)


@lru_cache(maxsize=8)
def source_index(repository: Repository) -> SourceIndex:
    """Parsed once; the tree of a repository does not change."""
    return SourceIndex(repository)


def read_module(repository: Repository, path: str) -> Module | None:
    try:
        return parse_module(path, read_text(repository.tree, path))
    except (UnicodeDecodeError, SyntaxError, ValueError):
        return None


def parse_module(path: str, text: str) -> Module:
    return Module(path, text, tuple(LINE.findall(text)), parse_source(text))


def parse_source(text: str) -> ast.Module:
    return parse(text.removeprefix("\ufeff"))


def definition_nodes(body: list[ast.stmt]) -> Iterator[DefinitionNode]:
    """Definitions of a module's or class's own body, also inside `if`, `try`, `with` and loops."""
    for statement in body:
        if isinstance(statement, DefinitionNode):
            yield statement
        else:
            for block in blocks_of(statement):
                yield from definition_nodes(block)


def blocks_of(statement: ast.stmt) -> list[list[ast.stmt]]:
    """The statement lists of a compound statement."""
    blocks = [getattr(statement, field, None) for field in ("body", "orelse", "finalbody")]
    blocks += [handler.body for handler in getattr(statement, "handlers", [])]
    blocks += [case.body for case in getattr(statement, "cases", [])]
    return [block for block in blocks if block]


def is_special(name: str) -> bool:
    """Python's own, as `__len__`."""
    return name.startswith("__") and name.endswith("__")


def first_line(node: ast.stmt) -> int:
    """Counted from 1, decorators included."""
    return min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", []))])


def docstring_node(node: DefinitionNode) -> ast.Expr | None:
    first = node.body[0]
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
        return first
    return None


def code_lines(module: Module, node: DefinitionNode) -> list[str]:
    """The lines of its body that hold code."""
    documented = docstring_node(node)
    statements = node.body[1:] if documented else node.body
    if not statements:
        return []
    lines = (line.strip() for line in module.lines[first_line(statements[0]) - 1 : node.end_lineno])
    return [line for line in lines if line and not line.startswith("#")]


def _definitions(module: Module) -> Iterator[Definition]:
    def inside(body: list[ast.stmt], owner: ast.ClassDef | None, prefix: str) -> Iterator[Definition]:
        for node in definition_nodes(body):
            kind: Kind = "class" if isinstance(node, ast.ClassDef) else "method" if owner else "function"
            name = f"{prefix}{node.name}"
            symbol = Symbol(file=module.path, name=name)
            yield Definition(symbol, kind, node, owner, len(code_lines(module, node)))
            if isinstance(node, ast.ClassDef):
                yield from inside(node.body, node, f"{name}.")

    return inside(module.tree.body, None, "")


def _mentioned(root: ast.AST, into_functions: bool = True) -> Iterator[str]:
    for child in ast.iter_child_nodes(root):
        if isinstance(child, ast.Name):
            yield child.id
        elif isinstance(child, ast.Attribute):
            yield child.attr
        if into_functions or not isinstance(child, FunctionNode | ast.Lambda):
            yield from _mentioned(child, into_functions)
        elif isinstance(child, FunctionNode):
            for outside in (*child.decorator_list, child.args):
                yield from _mentioned(ast.Expr(outside) if isinstance(outside, ast.expr) else outside)
