"""Small mistakes in Python source: each mutation changes one place inside a function, and keeps all line numbers.

Left out, as a test could hardly tell: text, docstrings, annotations, assertions, what an error says, and code outside
functions, which runs once at import.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}
UNTOUCHED = {"annotation", "returns", "decorator_list", "args", "type_comment"}

Place = tuple[ast.AST, str, int | None]  # parent, field, position in it


def places(tree: ast.AST, inside: bool = False) -> Iterator[Place]:
    """Every child of a function's body in the order of the source."""
    for field, value in ast.iter_fields(tree):
        if field in UNTOUCHED and not isinstance(tree, ast.Call):
            continue
        for number, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if not isinstance(child, ast.AST) or isinstance(child, ast.Assert):
                continue
            if inside:
                yield tree, field, number
            if not isinstance(child, ast.Raise):
                yield from places(child, inside or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef))


def mutated(node: ast.AST) -> ast.AST | None:
    """The node with its mistake; None where there is none to make."""
    new = copy.copy(node)
    match node:
        case ast.Compare(ops=[op]):
            new.ops = [COMPARISONS[type(op)]()]
        case ast.BoolOp(op=op):
            new.op = ast.Or() if isinstance(op, ast.And) else ast.And()
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return operand
        case ast.BinOp(op=op) | ast.AugAssign(op=op) if type(op) in ARITHMETIC:
            new.op = ARITHMETIC[type(op)]()
        case ast.Constant(value=bool(value)):
            new.value = not value
        case ast.Constant(value=int(value) | float(value)):
            new.value = value + 1
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
            new.test = ast.copy_location(ast.UnaryOp(ast.Not(), test), test)
        case ast.Return(value=ast.AST()):
            new.value = ast.copy_location(ast.Constant(None), node)
        case ast.Raise() | ast.Expr(value=ast.Call() | ast.Await()):
            return ast.copy_location(ast.Pass(), node)
        case ast.comprehension(ifs=[_, *_]):
            new.ifs = []
        case ast.Break():
            return ast.copy_location(ast.Continue(), node)
        case ast.Continue():
            return ast.copy_location(ast.Break(), node)
        case _:
            return None
    return new


def mutations(source: str) -> list[tuple[int, int, str]]:
    """(number of the place, line, kind) of every mutation of a module."""
    found = []
    for number, (parent, field, index) in enumerate(places(ast.parse(source))):
        node = getattr(parent, field) if index is None else getattr(parent, field)[index]
        if mutated(node) is not None:
            line = getattr(node, "lineno", None) or node.target.lineno  # a comprehension has no line of its own
            found.append((number, line, type(node).__name__))
    return found


def with_mutation(source: str, chosen: int) -> ast.Module:
    tree = ast.parse(source)
    for number, (parent, field, index) in enumerate(places(tree)):
        if number == chosen:
            if index is None:
                setattr(parent, field, mutated(getattr(parent, field)))
            else:
                getattr(parent, field)[index] = mutated(getattr(parent, field)[index])
            return ast.fix_missing_locations(tree)
    raise IndexError(chosen)
