"""Ways to put one small bug into a function, each as the splices that it could make.

Pure: from syntax to splices. An operator offers every place; which of them become tasks is decided elsewhere.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import NamedTuple

from composer_replication.syntax import Splice

from .source import FunctionNode, SourceText, inside

Finder = Callable[[SourceText, FunctionNode], Iterator[Splice | None]]


class Operator(NamedTuple):
    symptom: str
    """What a user could notice; says neither the line nor the change."""
    find: Finder


FLIPPED: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Eq: ("==", "!="), ast.NotEq: ("!=", "=="), ast.Lt: ("<", ">"), ast.Gt: (">", "<"), ast.LtE: ("<=", ">="),
    ast.GtE: (">=", "<="), ast.In: ("in", "not in"), ast.Is: ("is", "is not"),
}  # fmt: skip
MOVED: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">")
}  # fmt: skip
SWAPPED_OPERATORS: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.Mult: ("*", "+"), ast.FloorDiv: ("//", "*"), ast.Div: ("/", "*"),
    ast.Mod: ("%", "+"), ast.BitAnd: ("&", "|"), ast.BitOr: ("|", "&"),
}  # fmt: skip
ORDERED = (ast.Sub, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow)


def flip_comparison(source: SourceText, function: FunctionNode) -> Iterator[Splice | None]:
    for node in inside(function):
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in FLIPPED:
            yield source.between(node.left, node.comparators[0], *FLIPPED[type(node.ops[0])])


def off_by_one(source: SourceText, function: FunctionNode) -> Iterator[Splice | None]:
    for node in inside(function):
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in MOVED:
            yield source.between(node.left, node.comparators[0], *MOVED[type(node.ops[0])])
        bounds: list[ast.expr | None] = []
        if isinstance(node, ast.Subscript):
            bounds = [node.slice.lower, node.slice.upper] if isinstance(node.slice, ast.Slice) else [node.slice]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("range", "islice"):
            bounds = list(node.args)
        for bound in bounds:
            if isinstance(bound, ast.Constant) and type(bound.value) is int:
                yield source.replace(bound, str(bound.value + 1))


def drop_branch(source: SourceText, function: FunctionNode) -> Iterator[Splice | None]:
    for node in inside(function):
        if not isinstance(node, ast.If):
            continue
        if node.orelse:
            yield Splice(source.end(node.body[-1]), source.end(node.orelse[-1]), b"")
        elif not leaves(node.body[-1]):
            yield source.without(node)


def remove_early_return(source: SourceText, function: FunctionNode) -> Iterator[Splice | None]:
    for node in inside(function):
        if isinstance(node, ast.If) and not node.orelse and leaves(node.body[-1]) and not is_elif(source, node):
            yield source.without(node)


def invert_condition(source: SourceText, function: FunctionNode) -> Iterator[Splice | None]:
    for node in inside(function):
        tests: list[ast.expr] = []
        if isinstance(node, ast.If | ast.IfExp):
            tests = [node.test]
        elif isinstance(node, ast.comprehension):
            tests = node.ifs
        for test in tests:
            if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
                yield source.replace(test, source.code(test.operand))
            elif not isinstance(test, ast.Constant):
                code = source.code(test)
                simple = isinstance(test, ast.Name | ast.Attribute | ast.Call | ast.Subscript)
                yield source.replace(test, b"not " + code if simple else b"not (" + code + b")")


def change_operator(source: SourceText, function: FunctionNode) -> Iterator[Splice | None]:
    for node in inside(function):
        if isinstance(node, ast.BinOp) and type(node.op) in SWAPPED_OPERATORS and not is_text(node.left):
            yield source.between(node.left, node.right, *SWAPPED_OPERATORS[type(node.op)])
        elif isinstance(node, ast.BoolOp):
            words = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
            yield source.between(node.values[0], node.values[1], *words)
        elif isinstance(node, ast.AugAssign) and type(node.op) in SWAPPED_OPERATORS:
            yield source.between(node.target, node.value, *SWAPPED_OPERATORS[type(node.op)])


def swap_operands(source: SourceText, function: FunctionNode) -> Iterator[Splice | None]:
    for node in inside(function):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ORDERED) and not is_text(node.left):
            yield swapped(source, node.left, node.right)


def swap_arguments(source: SourceText, function: FunctionNode) -> Iterator[Splice | None]:
    for node in inside(function):
        if not isinstance(node, ast.Call) or any(isinstance(argument, ast.Starred) for argument in node.args[:2]):
            continue
        if len(node.args) > 1:
            yield swapped(source, node.args[0], node.args[1])


def drop_keyword(source: SourceText, function: FunctionNode) -> Iterator[Splice | None]:
    for node in inside(function):
        if (
            isinstance(node, ast.Call)
            and node.keywords
            and node.keywords[-1].arg
            and len(node.keywords + node.args) > 1
        ):
            before = max((source.end(one) for one in (*node.args, *node.keywords[:-1])), default=0)
            yield Splice(before, source.end(node.keywords[-1]), b"")


def wrong_default(source: SourceText, function: FunctionNode) -> Iterator[Splice | None]:
    given = [*function.args.defaults, *(one for one in function.args.kw_defaults if one is not None)]
    for default in given:
        if isinstance(default, ast.Constant) and (other := other_constant(default)) is not None:
            yield source.replace(default, other)


def mutate_constant(source: SourceText, function: FunctionNode) -> Iterator[Splice | None]:
    for node in inside(function):
        if isinstance(node, ast.Constant) and node.value is not None and (other := other_constant(node)) is not None:
            yield source.replace(node, other)


def drop_exception_handling(source: SourceText, function: FunctionNode) -> Iterator[Splice | None]:
    for node in inside(function):
        if isinstance(node, ast.Try) and node.handlers and not node.finalbody and not node.orelse:
            first, last = node.body[0], node.body[-1]
            deeper = first.col_offset - node.col_offset
            lines = source.content[source.start(first) : source.end(last)].split(b"\n")
            if first.lineno > node.lineno and all(not line[:deeper].strip() for line in lines[1:]):
                yield source.replace(node, b"\n".join([lines[0], *(line[deeper:] for line in lines[1:])]))


def forget_sum(source: SourceText, function: FunctionNode) -> Iterator[Splice | None]:
    for node in inside(function):
        if isinstance(node, ast.AugAssign):
            yield Splice(source.end(node.target), source.start(node.value), b" = ")


OPERATORS: dict[str, Operator] = {
    "flip_comparison": Operator("it decides the wrong way for some inputs", flip_comparison),
    "off_by_one": Operator("it is wrong at the edge of its range", off_by_one),
    "drop_branch": Operator("one kind of input is no longer treated on its own", drop_branch),
    "remove_early_return": Operator("a special case is no longer noticed", remove_early_return),
    "invert_condition": Operator("it does for some inputs what it should do for the others", invert_condition),
    "change_operator": Operator("it computes or combines its values wrongly", change_operator),
    "swap_operands": Operator("it computes its values wrongly", swap_operands),
    "swap_arguments": Operator("values get to the wrong place", swap_arguments),
    "drop_keyword": Operator("an option is not passed on", drop_keyword),
    "wrong_default": Operator("it is wrong when an argument is left out", wrong_default),
    "mutate_constant": Operator("a fixed value in its behaviour is not what it should be", mutate_constant),
    "drop_exception_handling": Operator("errors come through that it should deal with", drop_exception_handling),
    "forget_sum": Operator("what it gathers step by step gets lost", forget_sum),
}


def mutations(source: SourceText, function: FunctionNode, operator: str) -> Iterator[tuple[Splice, str]]:
    """Every splice of an operator in a function, with the text that it gives. Those without effect are left out, and
    those in a `while` loop: it would often not end, and every later run would wait for its time limit."""
    loops = [(source.start(node), source.end(node)) for node in ast.walk(function) if isinstance(node, ast.While)]
    seen: set[str] = set()
    for splice in OPERATORS[operator].find(source, function):
        if splice is None or any(start <= splice.start < end for start, end in loops):
            continue
        text = source.apply(splice)
        if text is not None and text not in seen:
            seen.add(text)
            yield splice, text


def leaves(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Return | ast.Raise | ast.Continue | ast.Break)


def is_elif(source: SourceText, node: ast.If) -> bool:
    return source.code(node).startswith(b"elif")


def is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str | bytes))


def swapped(source: SourceText, left: ast.expr, right: ast.expr) -> Splice | None:
    first, second = source.code(left), source.code(right)
    gap = source.content[source.end(left) : source.start(right)]
    return Splice(source.start(left), source.end(right), second + gap + first) if first != second else None


def other_constant(node: ast.Constant) -> str | None:
    """Another value of the same kind; None where there is no plain one."""
    value = node.value
    if isinstance(value, bool):
        return str(not value)
    if isinstance(value, int):
        return str(value + 1)
    if isinstance(value, float):
        return repr(value * 2 + 1)
    if value is None:
        return "0"
    if isinstance(value, str) and len(value) <= 40:
        return repr(value + " ") if value else "' '"
    return None
