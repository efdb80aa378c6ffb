"""Which lowered tests still show something that is only expected. Reads the two trees of a lowering."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from .analysis import FunctionPlace, places
from .data import KNOWN
from .pruning import reads_that_count
from .shape import mentioned


def exposed_tests(recording: ast.Module, graded: ast.Module, functions: Mapping[str, str]) -> set[str]:
    """By the names of the source."""
    before = {place.name: place for place in places(recording) if place.parent is None}
    after = {place.name: place for place in places(graded) if place.parent is None}
    outside = {
        name for node in graded.body if not isinstance(node, ast.FunctionDef | ast.ClassDef) for name in _bound(node)
    }
    helpers = {name for name, place in after.items() if name in before and _shows(before[name], place, outside)}
    words = {name: set(mentioned(place.node)) for name, place in after.items()}
    return {test for test, name in functions.items() if _reach(name, words) & helpers}


def _reach(name: str, words: Mapping[str, set[str]]) -> set[str]:
    """Functions that a test may run, by their names; of an inherited test all that bear its name."""
    by_last: dict[str, set[str]] = {}
    for other in words:
        by_last.setdefault(other.rpartition("::")[2], set()).add(other)
    found = {name} if name in words else set(by_last.get(name.rpartition("::")[2], ()))
    waiting = list(found)
    while waiting:
        for word in words[waiting.pop()] & set(by_last):
            waiting += by_last[word] - found
            found |= by_last[word]
    return found


def _shows(before: FunctionPlace, after: FunctionPlace, outside: set[str]) -> bool:
    counted = reads_that_count(after.node)
    bound = set(_bound(after.node)) | outside
    taken_apart = _only_taken_apart(after.node)
    read = [
        node.id for operand in _known_operands(before.node) for node in ast.walk(operand) if isinstance(node, ast.Name)
    ]
    return any(name in bound and (not counted[name] or name in taken_apart) for name in read)


def _only_taken_apart(function: ast.AST) -> set[str]:
    """Rows of a table, `row[0]`: one part is given to the package, another may be what is expected."""
    owners = [node.value for node in ast.walk(function) if isinstance(node, ast.Subscript | ast.Attribute)]
    parts = {id(node): node.id for node in owners if isinstance(node, ast.Name)}
    whole = {
        node.id
        for node in ast.walk(function)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and id(node) not in parts
    }
    return set(parts.values()) - whole


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
