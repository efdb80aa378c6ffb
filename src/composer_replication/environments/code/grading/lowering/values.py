"""What is known of a value before anything runs: whether gold's recording can stand for it.

Reads expressions. A value is fixed (known, and nothing can change it), plain (known as long as nobody changes it),
impure (made without the package, but not the same whenever it is asked), touched (made without the package, which then
got hold of it), or live (the package, or something that cannot be seen through, made it).
"""

from __future__ import annotations

import ast
from collections import ChainMap
from collections.abc import Iterable, Mapping, MutableMapping
from dataclasses import dataclass
from enum import IntEnum
from typing import cast

from . import pure


class Liveness(IntEnum):
    FIXED = 0
    PLAIN = 1
    IMPURE = 2
    TOUCHED = 3
    LIVE = 4


@dataclass(frozen=True)
class Value:
    level: Liveness
    element: Liveness = Liveness.LIVE
    """Of what it contains."""
    origin: str | None = None
    """Where a name comes from, dotted: `datetime.date`, `builtins.len`. Own functions and classes start with a dot."""
    pure_call: bool = False

    @property
    def known(self) -> bool:
        return self.level <= Liveness.PLAIN

    @property
    def names_something(self) -> bool:
        """A mere name of something importable: to look it up runs nothing, and a class can be known by it."""
        return self.known or self.origin is not None


FIXED = Value(Liveness.FIXED, Liveness.FIXED)
PLAIN = Value(Liveness.PLAIN, Liveness.PLAIN)
IMPURE = Value(Liveness.IMPURE, Liveness.IMPURE)
LIVE = Value(Liveness.LIVE)
Names = Mapping[str, Value]


def _throughout(level: Liveness) -> Value:
    return Value(level, level)


def within(inner: dict[str, Value], outer: Names) -> ChainMap[str, Value]:
    return ChainMap(inner, cast(MutableMapping[str, Value], outer))


def joined(values: Iterable[Value]) -> Value:
    found = list(values)
    if not found:
        return FIXED
    origins = {value.origin for value in found}
    known_by_name = None not in {value.origin for value in found if not value.known}
    return Value(
        max(value.level for value in found),
        max(value.element for value in found),
        found[0].origin if len(origins) == 1 else ("." if known_by_name else None),
        all(value.pure_call for value in found),
    )


def builtin(name: str) -> Value:
    if name not in pure.BUILTIN_NAMES:
        return LIVE
    origin = f"builtins.{name}"
    return Value(Liveness.FIXED, Liveness.FIXED, origin, pure.pure_origin(origin))


def imported(origin: str) -> Value:
    if pure.harmless_module(origin):
        return Value(Liveness.FIXED, Liveness.FIXED, origin, pure.pure_origin(origin))
    return Value(Liveness.LIVE, origin=origin)


def evaluate(node: ast.expr, names: Names) -> Value:
    match node:
        case ast.Constant():
            return FIXED
        case ast.Name():
            return names[node.id] if node.id in names else builtin(node.id)
        case ast.Tuple() | ast.List() | ast.Set():
            return _display(node, names)
        case ast.Dict():
            parts = [evaluate(part, names) for part in (*node.keys, *node.values) if part is not None]
            return _container(joined(parts), Liveness.PLAIN)
        case ast.JoinedStr() | ast.FormattedValue() | ast.Slice() | ast.Compare() | ast.BoolOp() | ast.UnaryOp():
            return _operation(node, names)
        case ast.BinOp() | ast.IfExp():
            return _operation(node, names)
        case ast.Starred():
            return evaluate(node.value, names)
        case ast.Subscript():
            base, index = evaluate(node.value, names), evaluate(node.slice, names)
            return _part(base, index)
        case ast.Attribute():
            return _attribute(node, names)
        case ast.Call():
            return _call(node, names)
        case ast.Lambda():
            return _lambda(node, names)
        case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
            return _comprehension(node, names)
        case _:
            return LIVE


def is_iterator(node: ast.expr, names: Names) -> bool:
    if isinstance(node, ast.GeneratorExp):
        return True
    return isinstance(node, ast.Call) and evaluate(node.func, names).origin in pure.ITERATORS


def target_names(target: ast.expr) -> list[str]:
    return [node.id for node in ast.walk(target) if isinstance(node, ast.Name)]


def element_of(iterable: ast.expr, names: Names) -> Value:
    """What a loop over it gives."""
    match iterable:
        case ast.List() | ast.Tuple() | ast.Set():
            return joined(evaluate(element, names) for element in iterable.elts)
        case ast.Dict() if None not in iterable.keys:
            return joined(evaluate(key, names) for key in iterable.keys if key is not None)
        case ast.Call(func=ast.Attribute(value=ast.Dict() as table, attr="items" | "values"), args=[]):
            return joined(evaluate(part, names) for part in (*table.keys, *table.values) if part is not None)
        case ast.Call(func=function, args=arguments) if arguments:
            origin = evaluate(function, names).origin
            if origin in pure.ORDERED or origin in ("builtins.enumerate", "builtins.reversed", "builtins.zip"):
                return joined(element_of(argument, names) for argument in arguments)
        case _:
            pass
    whole = evaluate(iterable, names)
    return Value(max(whole.level if not whole.known else Liveness.FIXED, whole.element), whole.element)


def _display(node: ast.Tuple | ast.List | ast.Set, names: Names) -> Value:
    inside = joined(evaluate(element, names) for element in node.elts)
    return _container(inside, Liveness.FIXED if isinstance(node, ast.Tuple) else Liveness.PLAIN)


def _container(inside: Value, least: Liveness) -> Value:
    origin = "." if inside.origin and least == Liveness.FIXED and inside.level > Liveness.PLAIN else None
    return Value(max(inside.level, least), inside.level, origin)


def _operation(node: ast.expr, names: Names) -> Value:
    parts = [evaluate(part, names) for part in ast.iter_child_nodes(node) if isinstance(part, ast.expr)]
    found = joined(parts)
    if found.known and isinstance(node, ast.JoinedStr | ast.FormattedValue | ast.Compare):
        return FIXED
    return Value(found.level, max(found.level, found.element))


def _part(base: Value, index: Value) -> Value:
    if not (base.known and index.known):
        return _throughout(max(base.level, index.level))
    return Value(base.element, base.element)


def _attribute(node: ast.Attribute, names: Names) -> Value:
    base = evaluate(node.value, names)
    if base.origin is None:
        return Value(base.level, base.level)
    origin = f"{base.origin}.{node.attr}"
    return Value(base.level, base.element, origin, base.known and pure.pure_origin(origin))


def _call(node: ast.Call, names: Names) -> Value:
    arguments = joined(evaluate(part, names) for part in (*node.args, *(keyword.value for keyword in node.keywords)))
    function = evaluate(node.func, names)
    if max(function.level, arguments.level) >= Liveness.TOUCHED:
        return _throughout(max(function.level, arguments.level))
    if function.origin is None and isinstance(node.func, ast.Attribute):
        owner = evaluate(node.func.value, names)
        if not (owner.known and arguments.known and node.func.attr in pure.PURE_METHODS):
            return _throughout(max(owner.level, arguments.level, Liveness.IMPURE))
        least = Liveness.FIXED if node.func.attr in pure.FIXED_METHODS else Liveness.PLAIN
        return Value(max(least, owner.element), max(owner.element, arguments.element))
    if not (function.pure_call and arguments.known):
        return IMPURE
    fixed = function.origin is not None and pure.gives_immutable(function.origin)
    return Value(
        Liveness.FIXED if fixed else Liveness.PLAIN,
        max(arguments.level, arguments.element) if not fixed else Liveness.FIXED,
    )


def _lambda(node: ast.Lambda, names: Names) -> Value:
    parameters = {argument.arg: PLAIN for argument in all_arguments(node.args)}
    body = evaluate(node.body, within(parameters, names))
    return Value(Liveness.FIXED, Liveness.FIXED, None, True) if body.known else LIVE


def all_arguments(arguments: ast.arguments) -> list[ast.arg]:
    rest = [argument for argument in (arguments.vararg, arguments.kwarg) if argument is not None]
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *rest]


def _comprehension(node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp, names: Names) -> Value:
    own: dict[str, Value] = {}
    inner = within(own, names)
    levels = [Liveness.PLAIN]
    for generator in node.generators:
        element = element_of(generator.iter, inner)
        own |= dict.fromkeys(target_names(generator.target), element)
        levels += [evaluate(part, inner).level for part in (generator.iter, *generator.ifs)]
    results = (node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt,)
    inside = max(evaluate(result, inner).level for result in results)
    return Value(max(*levels, inside), inside)
