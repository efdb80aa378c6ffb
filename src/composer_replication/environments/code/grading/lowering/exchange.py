"""The graded text once more, with other constants where it shows what is expected. Reads and gives source text.

An honest answer then fails exactly the checks that were changed. One that reads what is expected off the text does not.
Whether a change surely makes a check fail is for gold to show: `1 in cache` may hold of the other number too.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping
from random import Random
from types import MappingProxyType

from composer_replication.syntax import parse

from .analysis import places
from .data import OBSERVE, LoweredCheck
from .texts import lower


def exchanged(
    path: str,
    text: str,
    tests: Collection[str],
    packages: Collection[str],
    chance: Random,
    answered: Collection[int] = (),
    others: Mapping[str, str] = MappingProxyType({}),
) -> tuple[str, Mapping[str, frozenset[int]]]:
    """The text, and by test (as the source names it) the checks that must fail now. Tests without any are as before."""
    module = lower(path, text, tests, packages, answered, others)
    if not module.functions:
        return "", {}
    tree = parse(module.graded)
    must_fail: dict[str, frozenset[int]] = {}
    for place in places(tree):
        olds = [
            old for old, new in module.functions.items() if _same_function(new, place.name) and old in module.exposed
        ]
        if not olds or place.parent is not None:
            continue
        changed = {
            number
            for number, operands in _observed(place.node)
            if number in module.shown and _can_be_changed(module.checks[number]) and _change(operands, chance)
        }
        if changed:
            must_fail |= dict.fromkeys(olds, frozenset(changed))
    return ast.unparse(tree) + "\n", must_fail


def _same_function(name: str, place: str) -> bool:
    """An inherited test's function stands in another class."""
    return name == place or ("::" in name and "::" in place and name.rpartition("::")[2] == place.rpartition("::")[2])


def _can_be_changed(check: LoweredCheck) -> bool:
    return check.kind == "truth" or (check.kind == "eq" and all(check.live))


def _observed(function: ast.AST) -> Iterator[tuple[int, list[ast.expr]]]:
    """The operands of each check, also where they stand in assignments before it."""
    before = {
        target.id: node.value
        for node in ast.walk(function)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(function):
        match node:
            case ast.With(
                items=[
                    ast.withitem(
                        context_expr=ast.Call(func=ast.Name(id=name), args=[ast.Constant(value=int() as number)])
                    )
                ],
                body=[ast.Expr(value=ast.Call(args=operands))],
            ) if name == OBSERVE:
                yield number, [before.get(part.id, part) if isinstance(part, ast.Name) else part for part in operands]
            case _:
                pass


def _change(operands: list[ast.expr], chance: Random) -> bool:
    """Changes one constant of an expected value; of a condition's answer, one of each of its comparisons."""
    if len(operands) == 1:
        compared = [node for node in ast.walk(operands[0]) if isinstance(node, ast.Compare)]
        changed = [_change([node.left, *node.comparators], chance) for node in compared]
        return bool(changed) and all(changed)
    sides = [constants for operand in reversed(operands) if (constants := list(_constants(operand)))]
    if len(sides) != 1:
        return False
    constant = chance.choice(sides[0])
    constant.value = _other(constant.value, chance)
    return True


def _constants(node: ast.expr) -> Iterator[ast.Constant]:
    """Of a literal: those that take part in its equality."""
    match node:
        case ast.Constant(value=str() | bytes() | bool() | int() | float()):
            yield node
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            for element in elements:
                yield from _constants(element)
        case ast.Dict(values=values):
            for value in values:
                yield from _constants(value)
        case _:
            pass


def _other(value: object, chance: Random) -> str | bytes | bool | float:
    """One of the same type that differs."""
    match value:
        case bool():
            return not value
        case int():
            return value + chance.randint(1, 9)
        case float():
            return value * 2 + chance.randint(1, 9)
        case bytes():
            return value + bytes([chance.randrange(97, 123)])
        case _:
            text = str(value)
            place = chance.randrange(len(text)) if text else 0
            letters = [letter for letter in "aeinorst1" if letter != text[place : place + 1].casefold()]
            return text[:place] + chance.choice(letters) + text[place + 1 :]
