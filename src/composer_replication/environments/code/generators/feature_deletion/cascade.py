"""Take names out of a repository together with all that hangs on them while modules are imported, to a fixpoint.

A removed name takes with it: its definitions, names imported from it, its strings in `__all__`, its places in lists and
tables, aliases, registrations and star imports, in every module. In the packages a use that cannot go alone
(a decorator, a base class, a default, a condition) is an obstacle, and the deletion is not possible. In the tests
whatever stands on a removed name goes as well. Uses inside the bodies of functions stay as they are: they fail when
they run.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import PurePosixPath

from ...tasks.repository import Repository
from ...tasks.symbols import DefinitionNode, FunctionNode, SourceIndex, blocks_of, definition_nodes, source_index
from .import_time import ImportGraph, Target, Use
from .splices import Container, Marks, items_of


@dataclass
class Removal:
    """What one deletion takes away."""

    names: set[Target] = field(default_factory=set[Target])
    marks: dict[str, Marks] = field(default_factory=dict[str, Marks])
    files: set[str] = field(default_factory=set[str])
    obstacles: list[str] = field(default_factory=list[str])
    """Why the deletion does not leave an importable tree; empty when it does."""

    def of(self, path: str) -> Marks:
        return self.marks.setdefault(path, Marks())


@lru_cache(maxsize=8)
def import_graph(repository: Repository) -> ImportGraph:
    return ImportGraph(source_index(repository))


class Cascade:
    """Feed it definitions, names or files, then `settle`."""

    def __init__(self, graph: ImportGraph) -> None:
        self.graph = graph
        self.index: SourceIndex = graph.index
        self.removal = Removal()
        self._waiting: list[Target] = []

    def drop_definition(self, path: str, node: DefinitionNode, qualified_name: str) -> None:
        self.removal.of(path).statements.add(node)
        self.drop_name(path, qualified_name)
        if isinstance(node, ast.ClassDef):
            for inner in definition_nodes(node.body):
                self.removal.names.add((path, f"{qualified_name}.{inner.name}"))

    def drop_name(self, path: str, name: str) -> None:
        target = (path, name)
        if target not in self.removal.names:
            self.removal.names.add(target)
            self._waiting.append(target)

    def drop_file(self, path: str) -> None:
        self.removal.files.add(path)
        for name in self.graph.scopes[path].bindings:
            self.drop_name(path, name)
        package = (PurePosixPath(path).parent / "__init__.py").as_posix()
        if package in self.index.modules:
            self.removal.names.add((package, PurePosixPath(path).stem))
            self._leave_lists(package, PurePosixPath(path).stem)
        for imported in self.graph.module_importers.get(path, []):
            self._drop_item(imported.importer, imported.statement, imported.statement, imported.position)
            if imported.bound:
                self.drop_name(imported.importer, imported.bound)
        for star in self.graph.stars.get(path, []):
            self.removal.of(star.importer).statements.add(star.statement)

    def settle(self) -> Removal:
        while self._waiting:
            path, name = self._waiting.pop()
            self._leave_all(path, name)
            for user, use in self.graph.uses((path, name)):
                self._drop_use(user, use)
            for imported in self.graph.importers.get((path, name), []):
                self._drop_item(imported.importer, imported.statement, imported.statement, imported.position)
                self.drop_name(imported.importer, imported.bound)
            if "." not in name and self.graph.exports(path, name):
                for star in self.graph.stars.get(path, []):
                    if name not in self.graph.scopes[star.importer].bindings:
                        self.drop_name(star.importer, name)
            self._drop_requesters(path, name)
        self._check_bindings()
        return self.removal

    def _leave_lists(self, package: str, name: str) -> None:
        """Take the file's name out of the lists of module names that its package goes through."""
        for statement in self.index.modules[package].tree.body:
            self._leave_literals(package, statement, name)

    def _leave_all(self, path: str, name: str) -> None:
        """Take the name's string out of `__all__`."""
        for statement in self.graph.scopes[path].all_statements:
            self._leave_literals(path, statement, name)
            calls = [node for node in ast.walk(statement) if isinstance(node, ast.Call)]
            if isinstance(statement, ast.Expr) and any(_appends(call, name) for call in calls):
                self.removal.of(path).statements.add(statement)

    def _leave_literals(self, path: str, statement: ast.stmt, name: str) -> None:
        for node in ast.walk(statement):
            if isinstance(node, ast.List | ast.Tuple | ast.Set):
                for position, element in enumerate(node.elts):
                    if isinstance(element, ast.Constant) and element.value == name:
                        self._drop_item(path, statement, node, position)

    def _drop_use(self, path: str, use: Use) -> None:
        if path in self.removal.files or self._is_gone(path, use):
            return
        statement = use.statement
        place = _place_in_container(use)
        if place is not None:
            self._drop_item(path, statement, *place)
            return
        if isinstance(statement, ast.Assign | ast.AnnAssign) and self._may_go(path, use):
            self.removal.of(path).statements.add(statement)
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            prefix = "".join(f"{each.name}." for each in use.classes)
            for node in (node for target in targets for node in ast.walk(target)):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                    self.drop_name(path, prefix + node.id)
        elif isinstance(statement, ast.Expr | ast.Assert | ast.AugAssign) and not use.classes:
            self.removal.of(path).statements.add(statement)
        elif path in self.index.tests:
            self._absorb(path, use)
        else:
            kind = type(statement).__name__
            self.removal.obstacles.append(f"{path}:{statement.lineno}: a removed name is used by the {kind} there")

    def _may_go(self, path: str, use: Use) -> bool:
        """An assignment in a class goes only where the class itself lost the name that it uses."""
        if not use.classes:
            return True
        node = use.chain[-1]
        prefix = "".join(f"{each.name}." for each in use.classes)
        return isinstance(node, ast.Name) and (path, prefix + node.id) in self.removal.names

    def _absorb(self, path: str, use: Use) -> None:
        """In a test module: the whole class, function or block that stands on the name goes."""
        whole = use.classes[0] if use.classes else use.statement
        self.removal.of(path).statements.add(whole)
        if isinstance(whole, DefinitionNode):
            self.drop_name(path, whole.name)
        else:
            for name, statements in self.graph.scopes[path].bindings.items():
                if "." not in name and any(_contains(whole, each) for each in statements):
                    self.drop_name(path, name)

    def _drop_requesters(self, path: str, name: str) -> None:
        """Tests ask for a fixture by the name of a parameter."""
        definitions = self.graph.scopes[path].bindings.get(name, [])
        if path not in self.index.tests or not any(map(_is_fixture, definitions)):
            return
        for definition in self.index.tests[path].definitions:
            node = definition.node
            if isinstance(node, FunctionNode) and name in {each.arg for each in node.args.args}:
                self.removal.of(path).statements.add(node)
                self.drop_name(path, definition.symbol.name)

    def _drop_item(self, path: str, statement: ast.stmt, container: Container, position: int) -> None:
        marks = self.removal.of(path)
        if statement in marks.statements:
            return
        marks.items.setdefault(container, set()).add(position)
        whole = len(marks.items[container]) == len(items_of(container))
        if whole and isinstance(container, ast.Import | ast.ImportFrom | ast.Delete | ast.Set):
            del marks.items[container]
            marks.statements.add(statement)

    def _is_gone(self, path: str, use: Use) -> bool:
        marks = self.removal.of(path)
        return use.statement in marks.statements or any(each in marks.statements for each in use.classes)

    def _check_bindings(self) -> None:
        """A name that another branch still binds is not gone; and what `conftest.py` needs is not a feature."""
        for path, name in sorted(self.removal.names):
            if path in self.removal.files:
                continue
            if PurePosixPath(path).name == "conftest.py":
                self.removal.obstacles.append(f"{path} needs {name}")
            scope, marks = self.graph.scopes[path], self.removal.of(path)
            for statement in scope.bindings.get(name, []):
                aliases = statement.names if isinstance(statement, ast.Import | ast.ImportFrom) else []
                dropped = {aliases[each].asname or aliases[each].name for each in _dropped(marks, statement)}
                if not self._inside_dropped(path, statement) and name not in dropped:
                    self.removal.obstacles.append(f"{path}:{statement.lineno}: {name} has another binding")

    def _inside_dropped(self, path: str, statement: ast.stmt) -> bool:
        dropped = self.removal.of(path).statements
        return statement in dropped or any(_contains(each, statement) for each in dropped)


def _dropped(marks: Marks, statement: ast.stmt) -> set[int]:
    return marks.items.get(statement, set()) if isinstance(statement, ast.Import | ast.ImportFrom) else set()


def _contains(outer: ast.stmt, inner: ast.stmt) -> bool:
    return any(inner is each or _contains(each, inner) for block in blocks_of(outer) for each in block)


def _place_in_container(use: Use) -> tuple[Container, int] | None:
    """The list, table or tuple that has the use as one of its items, and which."""
    if isinstance(use.statement, DefinitionNode):
        return None
    if isinstance(use.statement, ast.Delete):
        return use.statement, use.statement.targets.index(use.chain[0])  # type: ignore[arg-type]
    unpacked = isinstance(use.statement, ast.Assign) and any(
        isinstance(target, ast.Tuple | ast.List) for target in use.statement.targets
    )
    for depth in range(len(use.chain) - 2, -1, -1):
        node, child = use.chain[depth], use.chain[depth + 1]
        if depth == 0 and unpacked:
            return None
        if isinstance(node, ast.List | ast.Set) or (isinstance(node, ast.Tuple) and _is_plain_tuple(use, depth)):
            return node, [id(each) for each in node.elts].index(id(child))
        if isinstance(node, ast.Dict):
            pairs = [(id(key), id(value)) for key, value in zip(node.keys, node.values, strict=True)]
            return node, next(place for place, pair in enumerate(pairs) if id(child) in pair)
        if isinstance(node, ast.comprehension | ast.Lambda):
            return None
    return None


def _is_plain_tuple(use: Use, depth: int) -> bool:
    """A tuple that is a value or an argument, not one inside another container or a subscript."""
    above = use.chain[depth - 1] if depth else use.statement
    return not isinstance(above, ast.List | ast.Set | ast.Dict | ast.Tuple | ast.Subscript)


def _appends(call: ast.Call, name: str) -> bool:
    return any(isinstance(each, ast.Constant) and each.value == name for each in call.args)


def _is_fixture(node: ast.stmt) -> bool:
    return isinstance(node, FunctionNode) and any("fixture" in ast.unparse(each) for each in node.decorator_list)
