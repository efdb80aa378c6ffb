"""What each name of a function is, and which outer names its code may change. Reads trees only.

The order of statements does not count: a name is as live as the most live of its sources. A plain value that is handed
to live code is live from then on and before.
"""

from __future__ import annotations

import ast
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from .bindings import Binder, Definition, Function, Sources, decided_by_known, inner_functions, parameter_names
from .pure import MUTATORS
from .values import (
    FIXED,
    IMPURE,
    LIVE,
    PLAIN,
    Liveness,
    Names,
    Value,
    element_of,
    evaluate,
    imported,
    is_iterator,
    joined,
    within,
)

ROUNDS = 30
OPEN_TO_CHANGE = (Liveness.PLAIN, Liveness.IMPURE)
Handed = Callable[[ast.Call], Mapping[ast.expr, Value] | None]
"""For a call whose callee is seen through: what becomes of each argument inside. None for others."""


class Scope:
    """`names` after `settle`: those of the function itself, its parameters included."""

    def __init__(
        self, body: list[ast.stmt], parameters: Mapping[str, Value], outer: Names, handed: Handed, later: bool = True
    ) -> None:
        """`later`: what functions inside it read may change before they run."""
        self.outer = outer
        self.handed = handed
        self.later = later
        self.escaped: set[str] = set()
        self.sources = Binder().read(body)
        own = {name for name, sources in self.sources.items() if sources.bound}
        self.names: dict[str, Value] = dict.fromkeys(own, FIXED) | dict(parameters)
        self.parameters = parameters
        self._nodes = list(_own(body))
        self._inner = list(inner_functions(body))
        for name in _rebound_inside(self._inner):
            self.sources.setdefault(name, Sources()).unseen = True
        everything = (node for statement in body for node in ast.walk(statement) if isinstance(node, ast.Name))
        self._reads = [node for node in everything if isinstance(node.ctx, ast.Load)]
        self._leaves_early = any(isinstance(node, ast.Break | ast.Continue | ast.Return) for node in self._nodes)

    @property
    def seen(self) -> ChainMap[str, Value]:
        return within(self.names, self.outer)

    def settle(self) -> None:
        for _ in range(ROUNDS):
            before = dict(self.names), set(self.escaped)
            self.escaped |= set(self._escapes())
            self.names |= {name: self._value(name) for name in self.names}
            if (self.names, self.escaped) == before:
                return
        self.names = dict.fromkeys(self.names, LIVE)

    def _value(self, name: str) -> Value:
        sources = self.sources.get(name, Sources())
        values = [self.parameters[name]] if name in self.parameters else []
        values += [self._of_expression(part) for part in sources.expressions]
        values += [self._of_element(iterable, column) for iterable, column in sources.iterables]
        values += [own_definition(node, self.seen) for node in sources.definitions]
        values += [imported(origin) for origin in sources.origins]
        found = joined(values)
        if sources.unseen:
            return LIVE
        if name in self.escaped and found.level in OPEN_TO_CHANGE:
            return Value(Liveness.TOUCHED, Liveness.TOUCHED)
        if self._may_differ(name, sources, len(values)) and not self._surely(sources):
            return LIVE
        return found

    def _may_differ(self, name: str, sources: Sources, values: int) -> bool:
        """Whether the way that the code took decides what a name holds when it is read."""
        read_after = sources.loops and not self._read_only_in(name, sources.loops)
        only_by_loops = len(sources.iterables) == values
        return bool(read_after) or (values > 1 and not only_by_loops)

    def _read_only_in(self, name: str, loops: list[ast.stmt]) -> bool:
        inside = {id(node) for loop in loops for node in ast.walk(loop)}
        return all(id(node) in inside for node in self._reads if node.id == name)

    def _surely(self, sources: Sources) -> bool:
        return not (self._leaves_early and sources.under) and all(
            decided_by_known(statement, self.seen) for statement in sources.under
        )

    def _of_expression(self, node: ast.expr) -> Value:
        found = evaluate(node, self.seen)
        return IMPURE if found.known and is_iterator(node, self.seen) else found

    def _of_element(self, iterable: ast.expr, column: int | None) -> Value:
        rows = table_rows(iterable)
        if column is not None and rows and all(len(row) > column for row in rows):
            return joined(evaluate(row[column], self.seen) for row in rows)
        return element_of(iterable, self.seen)

    def _escapes(self) -> Iterator[str]:
        for node in self._inner:
            if self.later or isinstance(node, ast.ClassDef):
                yield from self._plain_names(node)
        yield from (name for name in self.sources if name not in self.names)
        for node in self._nodes:
            if isinstance(node, ast.Assign | ast.AugAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                if any(evaluate(_loaded(target), self.seen).level >= Liveness.TOUCHED for target in targets):
                    yield from self._plain_names(node.value)
            elif isinstance(node, ast.For | ast.AsyncFor):
                if evaluate(_loaded(node.target), self.seen).level >= Liveness.TOUCHED:
                    yield from self._plain_names(node.iter)
            elif isinstance(node, ast.Return | ast.Yield | ast.YieldFrom) and node.value is not None:
                yield from self._plain_names(node.value)
            elif isinstance(node, ast.expr) and not isinstance(node, ast.Compare | ast.Starred):
                yield from self._escapes_of(node)

    def _escapes_of(self, node: ast.expr) -> Iterator[str]:
        """Plain names right inside an expression that is not known as a whole."""
        if evaluate(node, self.seen).known or _lists_things(node):
            return
        inside = self.handed(node) if isinstance(node, ast.Call) else None
        for part in _parts(node):
            if inside is not None and (part not in inside or inside[part].known):
                continue
            value = evaluate(part, self.seen)
            if _goes_through(node, part) and element_of(part, self.seen).level == Liveness.FIXED:
                continue
            if value.level in OPEN_TO_CHANGE and not _mutated_in_sight(node, part):
                yield from self._plain_names(part)

    def _plain_names(self, node: ast.AST) -> Iterator[str]:
        for name in ast.walk(node):
            if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Load):
                found = self.seen.get(name.id)
                if found is not None and found.level in OPEN_TO_CHANGE:
                    yield name.id


def _rebound_inside(inner: list[Definition | ast.Lambda]) -> Iterator[str]:
    """Names that functions inside declare to be those of the code around."""
    for function in inner:
        for node in ast.walk(function):
            if isinstance(node, ast.Global | ast.Nonlocal):
                yield from node.names


def own_definition(node: Definition, names: Names) -> Value:
    """A function whose only statement returns something known is as good as an expression."""
    if isinstance(node, ast.FunctionDef) and not node.decorator_list:
        body = [part for part in node.body if not is_docstring(part)]
        inner = within(dict.fromkeys(parameter_names(node), PLAIN), names)
        match body:
            case [ast.Return(value=ast.expr() as value)] if evaluate(value, inner).known:
                return replace(FIXED, origin=f".{node.name}", pure_call=True)
            case _:
                pass
    return replace(LIVE, origin=f".{node.name}")


def is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def table_rows(iterable: ast.expr) -> list[list[ast.expr]]:
    """The rows of a literal table, where each is a tuple or a list; those of `{…}.items()` too."""
    match iterable:
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            rows = [row.elts for row in elements if isinstance(row, ast.Tuple | ast.List)]
            whole = len(rows) == len(elements)
        case ast.Call(func=ast.Attribute(value=ast.Dict(keys=keys, values=values), attr="items"), args=[], keywords=[]):
            rows = [[key, value] for key, value in zip(keys, values, strict=True) if key is not None]
            whole = len(rows) == len(keys)
        case _:
            return []
    starred = any(isinstance(part, ast.Starred) for row in rows for part in row)
    return rows if whole and not starred else []


def _own(body: list[ast.stmt]) -> Iterator[ast.AST]:
    waiting: list[ast.AST] = list(body)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, Definition | Function):
            waiting += ast.iter_child_nodes(node)


def _loaded(target: ast.expr) -> ast.expr:
    """A target as if it were read."""
    return target.value if isinstance(target, ast.Starred) else target


def _lists_things(node: ast.expr) -> bool:
    """Its parts are looked at for themselves: a display, a condition."""
    return isinstance(node, ast.Name | ast.Lambda | ast.BoolOp | ast.Slice | ast.FormattedValue | ast.JoinedStr)


def _parts(node: ast.expr) -> Iterator[ast.expr]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.keyword):
            yield child.value
        elif isinstance(child, ast.comprehension):
            yield child.iter
        elif isinstance(child, ast.expr):
            yield child


def _goes_through(node: ast.expr, part: ast.expr) -> bool:
    generators = (
        node.generators if isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp) else []
    )
    return any(generator.iter is part for generator in generators)


def _mutated_in_sight(call: ast.expr, part: ast.expr) -> bool:
    """`x.append(v)`: x is changed, but `Binder` counts that."""
    return (
        isinstance(call, ast.Call) and call.func is part and isinstance(part, ast.Attribute) and part.attr in MUTATORS
    )
