"""Where the names of one function get their values. Reads its body; functions inside it count for
themselves."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

from . import pure
from .values import Names, all_arguments, evaluate, target_names

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass
class Sources:
    """All that one name is bound to or changed by."""

    expressions: list[ast.expr] = field(default_factory=list[ast.expr])
    iterables: list[tuple[ast.expr, int | None]] = field(default_factory=list[tuple[ast.expr, int | None]])
    """Looped over; with the column of a table where the loop unpacks one."""
    definitions: list[Definition] = field(default_factory=list[Definition])
    origins: list[str] = field(default_factory=list[str])
    unseen: bool = False
    bound: bool = False
    """Not only changed: a name of this function, where it is no parameter."""
    count: int = 0
    under: list[ast.stmt] = field(default_factory=list[ast.stmt])
    """Statements that decide whether, or how often, it is bound."""
    loops: list[ast.stmt] = field(default_factory=list[ast.stmt])
    """Those of them that may bind it again and again."""


class Binder(ast.NodeVisitor):
    """`found` by name, after `read`."""

    def __init__(self) -> None:
        self.found: dict[str, Sources] = {}
        self._under: list[ast.stmt] = []

    def read(self, body: list[ast.stmt]) -> dict[str, Sources]:
        for statement in body:
            self.visit(statement)
        return self.found

    def _bind(self, name: str, bound: bool = True) -> Sources:
        sources = self.found.setdefault(name, Sources())
        sources.bound |= bound
        sources.count += 1
        sources.under += self._under
        sources.loops += [node for node in self._under if isinstance(node, ast.For | ast.AsyncFor | ast.While)]
        return sources

    def _target(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Name):
            self._bind(target.id).expressions.append(value)
        elif isinstance(target, ast.Tuple | ast.List):
            parts = value.elts if isinstance(value, ast.Tuple | ast.List) else []
            pairs = len(parts) == len(target.elts) and not any(isinstance(part, ast.Starred) for part in parts)
            for place, part in enumerate(target.elts):
                self._target(part, parts[place]) if pairs else self._element(part, value, None)
        elif isinstance(target, ast.Starred):
            self._element(target.value, value, None)
        else:
            self._changed(target, value)

    def _element(self, target: ast.expr, iterable: ast.expr, column: int | None) -> None:
        for name in target_names(target):
            self._bind(name).iterables.append((iterable, column))

    def _changed(self, target: ast.expr, value: ast.expr) -> None:
        """`x[k] = v` adds to what x may be; `x.a = v` makes it an object like any other."""
        root = target
        while isinstance(root, ast.Subscript | ast.Attribute):
            root = root.value
        if isinstance(root, ast.Name):
            sources = self._bind(root.id, bound=False)
            sources.expressions.append(value)
            sources.unseen |= isinstance(target, ast.Attribute)

    def visit_Assign(self, node: ast.Assign) -> None:
        for target in node.targets:
            self._target(target, node.value)
        self.visit(node.value)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self._target(node.target, node.value)
            self.visit(node.value)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._target(node.target, node.value)
        self.visit(node.value)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self._bind(node.target.id).unseen = True
        self.visit(node.value)

    def visit_For(self, node: ast.For | ast.AsyncFor) -> None:
        self._under.append(node)
        if isinstance(node.target, ast.Tuple | ast.List):
            for column, part in enumerate(node.target.elts):
                self._element(part, node.iter, column if isinstance(part, ast.Name) else None)
        else:
            self._element(node.target, node.iter, None)
        self.generic_visit(node)
        self._under.pop()

    visit_AsyncFor = visit_For

    def _block(self, node: ast.stmt) -> None:
        self._under.append(node)
        self.generic_visit(node)
        self._under.pop()

    visit_If = visit_While = visit_Match = _block

    def visit_Try(self, node: ast.Try | ast.TryStar) -> None:
        for handler in node.handlers:
            if handler.name:
                self._bind(handler.name).unseen = True
        self._block(node)

    visit_TryStar = visit_Try

    def visit_With(self, node: ast.With | ast.AsyncWith) -> None:
        for item in node.items:
            if item.optional_vars is not None:
                for name in target_names(item.optional_vars):
                    self._bind(name).unseen = True
        self._block(node)

    visit_AsyncWith = visit_With

    def visit_Call(self, node: ast.Call) -> None:
        match node.func:
            case ast.Attribute(value=ast.Name(id=name), attr=method) if method in pure.MUTATORS:
                sources = self._bind(name, bound=False)
                sources.expressions += [*node.args, *(keyword.value for keyword in node.keywords)]
            case _:
                pass
        self.generic_visit(node)

    def _definition(self, node: Definition) -> None:
        self._bind(node.name).definitions.append(node)

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = _definition

    def visit_Lambda(self, node: ast.Lambda) -> None:
        """Its names are its own."""

    def _comprehension(self, node: ast.AST) -> None:
        for inner in ast.walk(node):
            if isinstance(inner, ast.NamedExpr):
                self._bind(inner.target.id).unseen = True

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _comprehension

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            name = alias.asname or alias.name.partition(".")[0]
            self._bind(name).origins.append(alias.name if alias.asname else name)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        for alias in node.names:
            self._bind(alias.asname or alias.name).origins.append(f"{'.' * node.level}{node.module or ''}.{alias.name}")

    def _shared(self, node: ast.Global | ast.Nonlocal) -> None:
        for name in node.names:
            self._bind(name).unseen = True

    visit_Global = visit_Nonlocal = _shared

    def visit_MatchAs(self, node: ast.MatchAs | ast.MatchStar) -> None:
        if node.name:
            self._bind(node.name).unseen = True
        self.generic_visit(node)

    visit_MatchStar = visit_MatchAs

    def visit_Delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            self._changed(target, ast.Constant(None))


def decided_by_known(statement: ast.stmt, names: Names) -> bool:
    """Whether a statement runs its body the same number of times whatever the package does."""
    match statement:
        case ast.If(test=deciding) | ast.While(test=deciding) | ast.For(iter=deciding):
            return evaluate(deciding, names).known
        case _:
            return False


def inner_functions(body: list[ast.stmt]) -> Iterator[Definition | ast.Lambda]:
    """Functions, classes and lambdas right inside, not those inside of those."""
    waiting: list[ast.AST] = list(body)
    while waiting:
        node = waiting.pop(0)
        if isinstance(node, Definition | ast.Lambda):
            yield node
        else:
            waiting[:0] = ast.iter_child_nodes(node)


def parameter_names(function: Function) -> list[str]:
    return [argument.arg for argument in all_arguments(function.args)]
