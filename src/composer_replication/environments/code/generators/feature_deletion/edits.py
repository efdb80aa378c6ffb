"""The modes of a deletion, from symbols to new file texts.

`stub` empties functions and keeps signature and docstring, `stub-nodoc` drops the docstring too, `remove` takes the
definitions out with all that hangs on them, `remove-file` takes whole modules. Type stubs (`.pyi`) next to a module
follow the removing modes. Every line that does not belong to the deletion keeps its bytes.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, get_args

from ...tasks.repository import Repository
from ...tasks.symbols import DefinitionNode, FunctionNode, Module, definition_nodes, read_module, source_index
from ...tasks.task import Symbol
from .cascade import Cascade, Removal, import_graph
from .import_time import Target, by_path
from .splices import InexactEdit, Marks, cut

Mode = Literal["stub", "stub-nodoc", "remove", "remove-file"]
MODES: tuple[Mode, ...] = get_args(Mode)


class NotDeletable(Exception):
    """The symbols cannot be taken out so that the rest still imports; the message says what holds them."""


@dataclass(frozen=True)
class Deletion:
    edits: dict[str, str | None]
    removed: frozenset[Target]
    """Names that no longer exist, by module; empty for the stub modes."""
    lost_tests: frozenset[str]
    """Test functions and classes (`path::Class::name`) that cannot be collected without those names."""


def delete(repository: Repository, symbols: Iterable[Symbol], mode: Mode) -> Deletion:
    try:
        if mode in ("stub", "stub-nodoc"):
            return Deletion(_stub(repository, symbols, mode == "stub"), frozenset(), frozenset())
        return _remove(repository, symbols, whole_files=mode == "remove-file")
    except InexactEdit as error:
        raise NotDeletable(str(error)) from error


def _stub(repository: Repository, symbols: Iterable[Symbol], documented: bool) -> dict[str, str | None]:
    index = source_index(repository)
    marks: dict[str, Marks] = {}
    for symbol in symbols:
        for definition in index.definitions[symbol]:
            members = index.class_members(symbol) if definition.kind == "class" else (definition,)
            for member in members:
                assert isinstance(member.node, FunctionNode)
                marks.setdefault(symbol.file, Marks()).stubs[member.node] = documented
    return {path: cut(index.sources[path], each) for path, each in marks.items()}


def _removal(repository: Repository, symbols: Iterable[Symbol], whole_files: bool) -> Removal:
    index = source_index(repository)
    cascade = Cascade(import_graph(repository))
    if whole_files:
        for path in sorted({symbol.file for symbol in symbols}):
            cascade.drop_file(path)
    else:
        for symbol in symbols:
            for definition in index.definitions[symbol]:
                cascade.drop_definition(symbol.file, definition.node, symbol.name)
    return cascade.settle()


def _remove(repository: Repository, symbols: Iterable[Symbol], whole_files: bool) -> Deletion:
    index = source_index(repository)
    removal = _removal(repository, symbols, whole_files)
    if removal.obstacles:
        raise NotDeletable(removal.obstacles[0])
    edits: dict[str, str | None] = dict.fromkeys(sorted(removal.files))
    for path, marks in removal.marks.items():
        if path in index.sources and path not in removal.files and marks:
            edits[path] = cut(index.sources[path], marks)
    edits |= _type_stubs(repository, removal)
    return Deletion(edits, frozenset(removal.names), _lost_tests(repository, removal))


def _lost_tests(repository: Repository, removal: Removal) -> frozenset[str]:
    index = source_index(repository)
    return frozenset(
        f"{path}::{definition.symbol.name.replace('.', '::')}"
        for path, module in index.tests.items()
        if path in removal.marks
        for definition in module.definitions
        if definition.node in removal.marks[path].statements
    )


def _type_stubs(repository: Repository, removal: Removal) -> dict[str, str | None]:
    edits: dict[str, str | None] = {}
    for path, gone in by_path(removal.names).items():
        stub = read_module(repository, f"{path}i") if (repository.tree / f"{path}i").is_file() else None
        if stub is None:
            continue
        if path in removal.files:
            edits[stub.path] = None
            continue
        marks = _type_stub_marks(stub, gone)
        if marks:
            edits[stub.path] = cut(stub, marks)
    return edits


def _type_stub_marks(stub: Module, gone: set[str]) -> Marks:
    marks = Marks()

    def definitions(body: list[ast.stmt], prefix: str) -> None:
        for node in definition_nodes(body):
            if prefix + node.name in gone:
                marks.statements.add(node)
            elif isinstance(node, ast.ClassDef):
                definitions(node.body, f"{prefix}{node.name}.")

    definitions(stub.tree.body, "")
    for statement in stub.tree.body:
        if isinstance(statement, ast.Import | ast.ImportFrom):
            bound = [alias.asname or alias.name for alias in statement.names]
            dropped = {place for place, name in enumerate(bound) if name in gone}
            if len(dropped) == len(bound):
                marks.statements.add(statement)
            elif dropped:
                marks.items[statement] = dropped
        elif not isinstance(statement, DefinitionNode):
            _mark_stub_values(statement, gone, marks)
    return marks


def _mark_stub_values(statement: ast.stmt, gone: set[str], marks: Marks) -> None:
    target = statement.target if isinstance(statement, ast.AnnAssign) else None
    if isinstance(statement, ast.Assign):
        target = statement.targets[0]
    if isinstance(target, ast.Name) and target.id in gone:
        marks.statements.add(statement)
        return
    for node in ast.walk(statement):
        if isinstance(node, ast.List | ast.Tuple):
            strings = [each.value if isinstance(each, ast.Constant) else None for each in node.elts]
            dropped = {place for place, value in enumerate(strings) if value in gone}
            if dropped:
                marks.items[node] = dropped
