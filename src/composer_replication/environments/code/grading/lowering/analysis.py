"""A whole test file: its functions, what their names are, and which calls are seen through. Reads one tree.

Arguments of the file's own functions flow into their parameters, where every use of the function is a plain call.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from .bindings import parameter_names
from .comparisons import compares_inside
from .parameters import FunctionNode, is_fixture, known_fixture, supplied
from .pure import BUILTIN_NAMES, harmless_module
from .scopes import Scope, is_docstring
from .values import FIXED, LIVE, Names, Value, evaluate, joined

ROUNDS = 12
SEEN_THROUGH = ("approx", "raises", "subTest", "print")


@dataclass(eq=False)
class FunctionPlace:
    """A function and where it stands."""

    node: FunctionNode
    name: str
    """As in pytest's ids; of inner functions the name alone."""
    classes: tuple[ast.ClassDef, ...] = ()
    parent: FunctionPlace | None = None
    inner: list[FunctionPlace] = field(default_factory=list["FunctionPlace"])

    @property
    def is_method(self) -> bool:
        return bool(self.classes) and self.parent is None

    @property
    def decorators(self) -> list[ast.expr]:
        return [*self.node.decorator_list, *(part for owner in self.classes for part in owner.decorator_list)]


def places(tree: ast.Module) -> list[FunctionPlace]:
    found: list[FunctionPlace] = []

    def functions_in(body: list[ast.stmt], outer: tuple[str, ...], classes: tuple[ast.ClassDef, ...]) -> None:
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                add(FunctionPlace(node, "::".join((*outer, node.name)), classes))
            elif isinstance(node, ast.ClassDef):
                functions_in(node.body, (*outer, node.name), (*classes, node))

    def add(place: FunctionPlace) -> None:
        found.append(place)
        waiting: list[ast.AST] = list(place.node.body)
        while waiting:
            node = waiting.pop(0)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                inner = FunctionPlace(node, node.name, place.classes, place)
                place.inner.append(inner)
                add(inner)
            elif not isinstance(node, ast.ClassDef):
                waiting[:0] = ast.iter_child_nodes(node)

    functions_in(tree.body, (), ())
    return found


class Analysis:
    def __init__(self, tree: ast.Module, tests: Collection[str]) -> None:
        self.tree = tree
        self.places = places(tree)
        self.tests = frozenset(tests)
        self.scopes: dict[FunctionPlace, Scope] = {}
        self._by_name: dict[str, list[FunctionPlace]] = {}
        for place in self.places:
            if is_stub(place.node):
                continue
            self._by_name.setdefault(place.node.name, []).append(place)
        self._other_uses, self._calls_by_name = _references(tree)
        self.called = {place for place in self.places if self._only_called(place)}
        self._handed_values: dict[FunctionPlace, dict[str, Value]] = {}
        self._fixtures = [place for place in self.places if place.parent is None and is_fixture(place.node)]
        self.module = Scope(tree.body, _shadowed(tree), {}, lambda call: None, later=False)
        self._settle()

    def names(self, place: FunctionPlace) -> Names:
        return self.scopes[place].seen

    def callee(self, call: ast.Call, inside: FunctionPlace | None) -> FunctionPlace | None:
        """The function of this file that a call runs, if that is sure."""
        match call.func:
            case ast.Name(id=name):
                found = [place for place in self._by_name.get(name, []) if not place.is_method]
                around = list(_outer(inside))
                visible = [place for place in found if place.parent is None or place.parent in around]
            case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name):
                found = [place for place in self._by_name.get(name, []) if place.is_method]
                visible = found
            case _:
                return None
        return found[0] if len(found) == 1 and visible == found and found[0] in self.called else None

    def stands_for(self, node: ast.expr) -> ast.expr:
        """What a name of the file was bound to, where that happened once."""
        sources = self.module.sources.get(node.id) if isinstance(node, ast.Name) else None
        return sources.expressions[0] if sources and sources.count == 1 and sources.expressions else node

    def compares(self, call: ast.Call) -> bool:
        """Whether the answer of an own function is that of a comparison."""
        name = call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")
        found = [place.node for place in self._by_name.get(name, []) if not place.is_method or _is_self(call.func)]
        answers = [part.value for node in found for part in ast.walk(node) if isinstance(part, ast.Return)]
        return any(compares_inside(answer) for answer in answers if answer is not None)

    def arguments(self, call: ast.Call, callee: FunctionPlace) -> dict[str, ast.expr] | None:
        """By parameter; None where stars hide who gets what."""
        node = callee.node
        own = [argument.arg for argument in (*node.args.posonlyargs, *node.args.args)]
        if callee.is_method and not _is_static(node):
            own = own[1:]
        starred = any(isinstance(part, ast.Starred) for part in call.args) or any(
            not part.arg for part in call.keywords
        )
        if starred or len(call.args) > len(own) or node.args.vararg or node.args.kwarg:
            return None
        return dict(zip(own, call.args, strict=False)) | {part.arg: part.value for part in call.keywords if part.arg}

    def _only_called(self, place: FunctionPlace) -> bool:
        """Nothing but plain calls refers to it, and nothing else decides what it is given."""
        if place.name in self.tests or place.node.decorator_list or len(self._by_name.get(place.node.name, [])) != 1:
            return False
        return place.node.name in self._calls_by_name and place.node.name not in self._other_uses

    def _settle(self) -> None:
        for _ in range(ROUNDS):
            before = self._state()
            self.module.settle()
            for place in self.places:
                self._settle_function(place)
                self.module.escaped |= self.scopes[place].escaped - set(self.scopes[place].names)
            self._flow()
            if self._state() == before:
                return
        self.module.names = dict.fromkeys(self.module.names, LIVE)
        for scope in self.scopes.values():
            scope.names = dict.fromkeys(scope.names, LIVE)

    def _state(self) -> object:
        return dict(self.module.names), [dict(scope.names) for scope in self.scopes.values()], dict(self._handed_values)

    def _settle_function(self, place: FunctionPlace) -> None:
        outer = self.scopes[place.parent].seen if place.parent else self.module.names
        given = self._given(place, outer)
        scope = self.scopes.get(place)
        if scope is None:
            handed = partial(self._handed, inside=place)
            scope = self.scopes[place] = Scope(place.node.body, given, outer, handed)
        scope.parameters = given
        scope.settle()
        if place.parent:
            self.scopes[place.parent].escaped |= scope.escaped - set(scope.names)

    def _given(self, place: FunctionPlace, outer: Names) -> Mapping[str, Value]:
        if place in self.called:
            found = dict.fromkeys(parameter_names(place.node), FIXED) | self._handed_values.get(place, {})
            return found | (
                {parameter_names(place.node)[0]: LIVE} if place.is_method and parameter_names(place.node) else {}
            )
        if place.name in self.tests or is_fixture(place.node):
            fixtures: dict[str, Value] = {}
            for other in self._fixtures:
                again = other.node.name in fixtures
                fixtures[other.node.name] = LIVE if again else known_fixture(other.node, self.module.names)
            return supplied(place.node, place.decorators, fixtures, outer, self.stands_for)
        return dict.fromkeys(parameter_names(place.node), LIVE)

    def _handed(self, call: ast.Call, inside: FunctionPlace) -> Mapping[ast.expr, Value] | None:
        last = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        if last in SEEN_THROUGH or (last.startswith("assert") and isinstance(call.func, ast.Attribute)):
            return {}
        callee = self.callee(call, inside)
        given = self.arguments(call, callee) if callee else None
        if callee is None or given is None or callee not in self.scopes:
            return None
        return {part: self.scopes[callee].names.get(name, LIVE) for name, part in given.items()}

    def _flow(self) -> None:
        """What the calls hand to the parameters of own functions."""
        handed: dict[FunctionPlace, dict[str, list[Value]]] = {}
        for inside, call in self.calls():
            callee = self.callee(call, inside)
            if callee is None:
                continue
            names = self.scopes[inside].seen if inside else self.module.names
            given = self.arguments(call, callee)
            into = handed.setdefault(callee, {})
            for name in parameter_names(callee.node):
                if given is None:
                    into.setdefault(name, []).append(LIVE)
                elif name in given:
                    into.setdefault(name, []).append(evaluate(given[name], names))
        for callee, values in handed.items():
            defaults = _defaults(callee.node)
            for name, default in defaults.items():
                values.setdefault(name, []).append(evaluate(default, self.module.names))
            self._handed_values[callee] = {name: joined(found) for name, found in values.items()}

    def calls(self) -> list[tuple[FunctionPlace | None, ast.Call]]:
        """Every call of the file, with the function that it stands in."""
        homes = {id(place.node): place for place in self.places}
        found: list[tuple[FunctionPlace | None, ast.Call]] = []
        waiting: list[tuple[ast.AST, FunctionPlace | None]] = [(self.tree, None)]
        while waiting:
            node, inside = waiting.pop()
            if isinstance(node, ast.Call):
                found.append((inside, node))
            inside = homes.get(id(node), inside)
            waiting += [(child, inside) for child in ast.iter_child_nodes(node)]
        return found


def is_stub(node: FunctionNode) -> bool:
    """A mere declaration, as of a protocol."""
    match [part for part in node.body if not is_docstring(part)]:
        case [ast.Expr(value=ast.Constant(value=value))]:
            return value is ...
        case _:
            return False


def _references(tree: ast.Module) -> tuple[set[str], set[str]]:
    """Names that are used other than by a plain call, and names that are called."""
    callees = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    other: set[str] = set()
    called: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.Attribute):
            name = node.id if isinstance(node, ast.Name) else node.attr
            (called if id(node) in callees else other).add(name)
    return other, called


def _shadowed(tree: ast.Module) -> dict[str, Value]:
    """After `from package import *` any name of the language may be the package's."""
    stars = [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.names[0].name == "*"]
    if all(node.level == 0 and harmless_module(node.module or "") for node in stars):
        return {}
    return {name: replace(LIVE, origin=f"*.{name}") for name in BUILTIN_NAMES}


def _outer(place: FunctionPlace | None) -> Iterator[FunctionPlace]:
    while place is not None:
        yield place
        place = place.parent


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")


def _is_static(node: FunctionNode) -> bool:
    return any(isinstance(decorator, ast.Name) and decorator.id == "staticmethod" for decorator in node.decorator_list)


def _defaults(node: FunctionNode) -> dict[str, ast.expr]:
    positional = [argument.arg for argument in (*node.args.posonlyargs, *node.args.args)]
    found = dict(zip(reversed(positional), reversed(node.args.defaults), strict=False))
    keyword = zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
    return found | {argument.arg: default for argument, default in keyword if default is not None}
