"""Which lowered tests still show something that is only expected. Reads the two trees of a lowering."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from .analysis import Place, places
from .data import KNOWN
from .pruning import reads_that_count
from .shape import mentioned


def exposed_tests(recording: ast.Module, graded: ast.Module, functions: Mapping[str, str]) -> set[str]:
    """By the names of the source."""
    before = {place.name: place for place in places(recording) if place.parent is None}
    after = {place.name: place for place in places(graded) if place.parent is None}
    helpers = {name for name, place in after.items() if name in before and _shows(before[name], place, graded)}
    shown: set[str] = set()
    for test, name in functions.items():
        reach = _reach(name, after)
        if reach & helpers:
            shown.add(test)
    return shown


def _reach(name: str, functions: Mapping[str, Place]) -> set[str]:
    by_last: dict[str, list[str]] = {}
    for other in functions:
        by_last.setdefault(other.rpartition("::")[2], []).append(other)
    found = set(by_last.get(name.rpartition("::")[2], [])) if name not in functions else {name}
    waiting = list(found)
    while waiting:
        for word in set(mentioned(functions[waiting.pop()].node)) & set(by_last):
            new = set(by_last[word]) - found
            found |= new
            waiting += new
    return found


def _shows(before: Place, after: Place, graded: ast.Module) -> bool:
    counted = reads_that_count(after.node)
    bound = set(_bound(after.node))
    outside = {name for node in graded.body for name in _bound(node) if not isinstance(node, ast.FunctionDef | ast.ClassDef)}
    for operand in _known_operands(before.node):
        inner = {node.value.id for node in ast.walk(operand) if isinstance(node, ast.Subscript | ast.Attribute) and isinstance(node.value, ast.Name)}
        for node in ast.walk(operand):
            if isinstance(node, ast.Name) and node.id in bound | outside and (not counted[node.id] or node.id in inner & bound):
                return True
    return False


def _known_operands(function: ast.AST) -> Iterator[ast.expr]:
    for node in ast.walk(function):
        match node:
            case ast.Call(func=ast.Name(id=name), args=[_, _, operand]) if name == KNOWN:
                yield operand
            case _:
                pass


def _bound(node: ast.AST) -> Iterator[str]:
    for part in ast.walk(node):
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
            yield part.id
        elif isinstance(part, ast.arg):
            yield part.arg
