"""What the import of a module binds and uses: the names at its top and in its classes, and the imports between modules.

Bodies of functions do not run at import, nor does an `if __name__ == "__main__"` block; both are left out.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import NamedTuple

from ...tasks.symbols import Definition, FunctionNode, Module, SourceIndex, blocks_of
from ...tasks.task import Symbol

Target = tuple[str, str]
"""Path of a module and a name in it; a name of a class is `Class.name`."""


def by_path(targets: Iterable[Target]) -> dict[str, set[str]]:
    names: dict[str, set[str]] = {}
    for path, name in targets:
        names.setdefault(path, set()).add(name)
    return names


class Use(NamedTuple):
    """A name that a statement needs while its module is imported."""

    statement: ast.stmt
    chain: tuple[ast.AST, ...]
    """From the statement (not counted) down to the node that names it."""
    classes: tuple[ast.ClassDef, ...]
    """Enclosing classes, outermost first."""


class Reference(NamedTuple):
    """A name of some module that the body of a function needs when it runs."""

    target: Target
    called: bool
    """Whether it does nothing with the name but call it."""


class ImportedName(NamedTuple):
    importer: str
    statement: ast.Import | ast.ImportFrom
    position: int
    bound: str
    """What the importer calls it; empty for `import a.b`, which binds no name of its own."""


class Star(NamedTuple):
    importer: str
    statement: ast.ImportFrom


@dataclass
class ModuleScope:
    """Of one module."""

    bindings: dict[str, list[ast.stmt]] = field(default_factory=dict[str, list[ast.stmt]])
    uses: dict[Target, list[Use]] = field(default_factory=dict[Target, list[Use]])
    all_statements: list[ast.stmt] = field(default_factory=list[ast.stmt])
    """Those that build `__all__`."""
    exported: frozenset[str] | None = None
    """Strings of `__all__`; None without one."""


class ImportGraph:
    """Who imports what from whom, over all modules of the index; built once."""

    def __init__(self, index: SourceIndex) -> None:
        self.index = index
        self.scopes: dict[str, ModuleScope] = {}
        self.importers: dict[Target, list[ImportedName]] = {}
        self.module_importers: dict[str, list[ImportedName]] = {}
        self.stars: dict[str, list[Star]] = {}
        self.edges: dict[str, set[str]] = {}
        """Path -> paths that it imports, anywhere in its code."""
        self._uses: dict[Target, list[tuple[str, Use]]] = {}
        self._references: dict[Symbol, frozenset[Reference]] = {}
        self._modules: dict[str, dict[str, str]] = {}
        """Path -> local name -> path of the module that it stands for."""
        for path, module in index.modules.items():
            self._modules[path] = self._read_imports(module)
        for path, module in index.modules.items():
            scope = self.scopes[path] = _Reader(index, module, self._modules[path]).read()
            for target, uses in scope.uses.items():
                self._uses.setdefault(target, []).extend((path, use) for use in uses)

    def uses(self, target: Target) -> list[tuple[str, Use]]:
        """Every import-time use, by whatever module."""
        return self._uses.get(target, [])

    def exports(self, path: str, name: str) -> bool:
        """Whether `from module import *` would bring the name."""
        exported = self.scopes[path].exported
        return name in exported if exported is not None else not name.startswith("_")

    def references(self, definition: Definition) -> frozenset[Reference]:
        """Of a function, its own parameters and variables left out."""
        if definition.symbol not in self._references:
            found = _body_references(self.index, definition, self._modules[definition.symbol.file])
            self._references[definition.symbol] = frozenset(found)
        return self._references[definition.symbol]

    def _read_imports(self, module: Module) -> dict[str, str]:
        """Notes the imports of a module; gives the names that are modules of the repository there."""
        modules: dict[str, str] = {}
        outside = set(_statements(module.tree.body))
        for node in ast.walk(module.tree):
            at_import = node in outside
            if isinstance(node, ast.ImportFrom):
                self._read_from(module, node, at_import, modules)
            elif isinstance(node, ast.Import):
                for position, alias in enumerate(node.names):
                    path = self.index.find_module(module, 0, alias.name)
                    if path is None:
                        continue
                    self.edges.setdefault(module.path, set()).add(path)
                    if alias.asname:
                        modules[alias.asname] = path
                    else:
                        top = alias.name.partition(".")[0]
                        top_path = self.index.find_module(module, 0, top)
                        if top_path:
                            modules[top] = top_path
                    if at_import:
                        bound = alias.asname or ("" if "." in alias.name else alias.name)
                        imported = ImportedName(module.path, node, position, bound)
                        self.module_importers.setdefault(path, []).append(imported)
        return modules

    def _read_from(self, module: Module, node: ast.ImportFrom, at_import: bool, modules: dict[str, str]) -> None:
        path = self.index.find_module(module, node.level, node.module or "")
        if path is None:
            return
        self.edges.setdefault(module.path, set()).add(path)
        if module.is_package and PurePosixPath(path).parent.as_posix() == module.folder:
            modules.setdefault(PurePosixPath(path).stem, path)  # importing from a submodule binds it in its package
        for position, alias in enumerate(node.names):
            if alias.name == "*":
                if at_import:
                    self.stars.setdefault(path, []).append(Star(module.path, node))
                continue
            bound = alias.asname or alias.name
            imported = ImportedName(module.path, node, position, bound)
            submodule = self.index.submodule(path, alias.name)
            if submodule is not None:
                modules[bound] = submodule
                self.edges[module.path].add(submodule)
                if at_import:
                    self.module_importers.setdefault(submodule, []).append(imported)
            if at_import:
                self.importers.setdefault((path, alias.name), []).append(imported)


def bound_names(module: Module) -> frozenset[str]:
    """Top-level names of a module; those behind a star import are not known."""
    return frozenset(name for statement in _statements(module.tree.body) for name in _bound_names(statement))


class _Reader:
    """Reads the scope of one module."""

    def __init__(self, index: SourceIndex, module: Module, modules: dict[str, str]) -> None:
        self.index, self.module, self.modules = index, module, modules
        self.scope = ModuleScope()

    def read(self) -> ModuleScope:
        self._block(self.module.tree.body, (), "", frozenset())
        if self.scope.all_statements:
            nodes = (node for statement in self.scope.all_statements for node in ast.walk(statement))
            self.scope.exported = frozenset(
                node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)
            )
        return self.scope

    def _block(self, body: list[ast.stmt], classes: tuple[ast.ClassDef, ...], prefix: str, own: frozenset[str]) -> None:
        for statement in body:
            for name in _bound_names(statement):
                self.scope.bindings.setdefault(prefix + name, []).append(statement)
            if not classes and _builds_all(statement):
                self.scope.all_statements.append(statement)
            for chain in _import_time_names(statement, self.module.lazy_annotations):
                target = self._target(chain[-1], prefix, own)
                if target:
                    self.scope.uses.setdefault(target, []).append(Use(statement, chain, classes))
            if isinstance(statement, ast.ClassDef):
                inner = frozenset(name for each in _statements(statement.body) for name in _bound_names(each))
                self._block(statement.body, (*classes, statement), f"{prefix}{statement.name}.", inner)
            elif not isinstance(statement, FunctionNode) and not _is_main_block(statement):
                for block in blocks_of(statement):
                    self._block(block, classes, prefix, own)

    def _target(self, node: ast.AST, prefix: str, own: frozenset[str]) -> Target | None:
        """The module and the name that an expression `name` or `module.name` stands for."""
        if isinstance(node, ast.Name):
            return self.module.path, prefix + node.id if node.id in own else node.id
        assert isinstance(node, ast.Attribute)
        owner = _module_named(self.index, node.value, self.modules)
        return (owner, node.attr) if owner else None


def _module_named(index: SourceIndex, node: ast.expr, modules: Mapping[str, str]) -> str | None:
    """Path of the module that `name` or `package.name` stands for."""
    if isinstance(node, ast.Name):
        return modules.get(node.id)
    if isinstance(node, ast.Attribute):
        package = _module_named(index, node.value, modules)
        return index.submodule(package, node.attr) if package else None
    return None


def _body_references(index: SourceIndex, definition: Definition, modules: Mapping[str, str]) -> Iterator[Reference]:
    module = index.sources[definition.symbol.file]
    nodes = list(ast.walk(definition.node))
    called = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    own = {node.arg for node in nodes if isinstance(node, ast.arg)}
    own |= {node.id for node in nodes if isinstance(node, ast.Name) and _is_store(node)}
    for node in nodes:
        if isinstance(node, ast.Name) and node.id not in own:
            yield Reference((module.path, node.id), id(node) in called)
        elif isinstance(node, ast.Attribute):
            path = _module_named(index, node.value, modules)
            if path is not None:
                yield Reference((path, node.attr), id(node) in called)
        elif isinstance(node, ast.ImportFrom):
            path = index.find_module(module, node.level, node.module or "")
            if path is not None:
                yield from (Reference((path, alias.name), False) for alias in node.names)


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Of one scope, those inside `if`, `try`, `with` and loops too; classes count as scopes of their own."""
    for statement in body:
        yield statement
        if not isinstance(statement, FunctionNode | ast.ClassDef) and not _is_main_block(statement):
            for block in blocks_of(statement):
                yield from _statements(block)


def _bound_names(statement: ast.stmt) -> Iterator[str]:
    """By the statement itself, not by those inside it."""
    if isinstance(statement, FunctionNode | ast.ClassDef):
        yield statement.name
    elif isinstance(statement, ast.Import | ast.ImportFrom):
        for alias in statement.names:
            yield alias.asname or alias.name.partition(".")[0]
    elif isinstance(statement, ast.Assign | ast.AnnAssign | ast.For | ast.With | ast.AsyncFor | ast.AsyncWith):
        targets: list[ast.expr] = []
        if isinstance(statement, ast.Assign):
            targets = statement.targets
        elif isinstance(statement, ast.With | ast.AsyncWith):
            targets = [item.optional_vars for item in statement.items if item.optional_vars]
        elif not isinstance(statement, ast.AnnAssign) or statement.value is not None:
            targets = [statement.target]
        for target in targets:
            yield from (node.id for node in ast.walk(target) if isinstance(node, ast.Name) and _is_store(node))


def _is_store(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Store)


def _import_time_names(statement: ast.stmt, lazy_annotations: bool) -> Iterator[tuple[ast.AST, ...]]:
    """Chains down to every name or attribute that the statement itself loads (or deletes) when it is run."""
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return
    inner = {id(each) for block in blocks_of(statement) for each in block}
    lazy = {id(each) for each in _annotations(statement)} if lazy_annotations else set[int]()
    skipped = inner | lazy

    def below(node: ast.AST, chain: tuple[ast.AST, ...]) -> Iterator[tuple[ast.AST, ...]]:
        for child in ast.iter_child_nodes(node):
            if id(child) in skipped:
                continue
            longer = (*chain, child)
            if isinstance(child, ast.Lambda):
                yield from below(child.args, longer)
                continue
            if (isinstance(child, ast.Name) and not _is_store(child)) or isinstance(child, ast.Attribute):
                yield longer
            yield from below(child, longer)

    yield from below(statement, ())


def _annotations(statement: ast.stmt) -> Iterator[ast.AST]:
    if isinstance(statement, ast.AnnAssign):
        yield statement.annotation
    elif isinstance(statement, FunctionNode):
        every = statement.args
        for argument in (*every.posonlyargs, *every.args, *every.kwonlyargs, every.vararg, every.kwarg):
            if argument is not None and argument.annotation is not None:
                yield argument.annotation
        if statement.returns is not None:
            yield statement.returns


def _builds_all(statement: ast.stmt) -> bool:
    """`__all__ = …`, `__all__ += …`, `__all__.extend(…)`."""
    targets: list[ast.expr] = []
    if isinstance(statement, ast.Assign):
        targets = statement.targets
    elif isinstance(statement, ast.AugAssign | ast.AnnAssign):
        targets = [statement.target]
    elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        function = statement.value.func
        targets = [function.value] if isinstance(function, ast.Attribute) else []
    return any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets)


def _is_main_block(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.If)
        and isinstance(statement.test, ast.Compare)
        and isinstance(statement.test.left, ast.Name)
        and statement.test.left.id == "__name__"
    )
