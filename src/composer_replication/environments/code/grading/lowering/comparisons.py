"""Conditions of assertions, taken apart into comparisons of values. Reads expressions.

What cannot be taken apart without another meaning raises `UnlowerableError`.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field

from .data import Option, UnlowerableError
from .values import Names, Value, evaluate

KINDS: dict[type[ast.cmpop], str] = {
    ast.Eq: "eq",
    ast.NotEq: "ne",
    ast.Lt: "lt",
    ast.LtE: "le",
    ast.Gt: "gt",
    ast.GtE: "ge",
    ast.In: "in",
    ast.NotIn: "not_in",
    ast.Is: "is",
    ast.IsNot: "is_not",
}
OPPOSITES = {"eq": "ne", "in": "not_in", "is": "is_not", "truth": "falsehood", "isinstance": "not_isinstance"}
DENIED = OPPOSITES | {second: first for first, second in OPPOSITES.items()}
TOLD_BY_THE_OBJECT = (ast.Is, ast.IsNot, ast.In, ast.NotIn)
"""Allowed inside `or`: identity cannot be lied about, and what an object contains is its own answer."""
IDENTITIES = frozenset("bool bytes complex dict float frozenset int list set str tuple type".split())


@dataclass
class AssertedComparison:
    kind: str
    operands: list[ast.expr]
    options: dict[str, Option] = field(default_factory=dict[str, Option])
    known: frozenset[int] | None = None
    """Places of the operands that are known whatever they look like; None: to be found out."""


def comparisons(test: ast.expr, names: Names, holds: bool = True) -> Iterator[AssertedComparison]:
    match test:
        case ast.BoolOp(op=ast.And()) if holds:
            for part in test.values:
                yield from comparisons(part, names)
        case ast.BoolOp(op=ast.Or()) if not holds:
            for part in test.values:
                yield from comparisons(part, names, False)
        case ast.UnaryOp(op=ast.Not()):
            yield from comparisons(test.operand, names, not holds)
        case ast.Compare(ops=[operator], comparators=[right]):
            yield compared(KINDS[type(operator)], test.left, right, names, holds)
        case ast.Compare() if holds:
            yield from _chain(test, names)
        case ast.Call(func=ast.Name(id="isinstance"), args=[value, classes], keywords=[]) if named_class(
            classes, names
        ):
            yield AssertedComparison(
                "isinstance" if holds else "not_isinstance", [value, classes], known=frozenset((1,))
            )
        case ast.Call(func=ast.Name(id="all"), args=[ast.GeneratorExp() | ast.ListComp() as inner], keywords=[]):
            yield _each(inner, test, names, holds)
        case _:
            yield truth(test, holds)


def compared(kind: str, left: ast.expr, right: ast.expr, names: Names, holds: bool = True) -> AssertedComparison:
    if not holds:
        if kind not in DENIED:
            raise UnlowerableError("a denied order")
        kind = DENIED[kind]
    if kind in ("is", "is_not"):
        return _identity(kind, left, right, names)
    sides = [is_approx(left, names), is_approx(right, names)]
    if any(sides):
        return _approx(kind, left, right, sides.index(True))
    constants = [place for place, side in enumerate((left, right)) if _is_named_constant(side, names)]
    if kind in ("eq", "ne") and len(constants) == 1:
        return AssertedComparison(kind, [left, right], known=frozenset(constants))
    return AssertedComparison(kind, [left, right])


def truth(test: ast.expr, holds: bool = True) -> AssertedComparison:
    if compares_inside(test):
        raise UnlowerableError("a comparison inside an expression")
    return AssertedComparison("truth" if holds else "falsehood", [_as_bool(test)])


def named_class(node: ast.expr, names: Names) -> bool:
    return evaluate(node, names).names_something


def compares_inside(test: ast.expr) -> bool:
    """Whether its truth is that of a comparison of values, made beside the submission."""
    match test:
        case ast.Compare():
            return not all(isinstance(operator, TOLD_BY_THE_OBJECT) for operator in test.ops)
        case ast.BoolOp():
            return any(compares_inside(part) for part in test.values)
        case ast.UnaryOp(op=ast.Not()):
            return compares_inside(test.operand)
        case ast.NamedExpr():
            return compares_inside(test.value)
        case ast.IfExp():
            return compares_inside(test.body) or compares_inside(test.orelse)
        case ast.Call(func=ast.Name(id="all" | "any" | "bool" | "sum" | "list")):
            return any(compares_inside(part) for part in test.args)
        case ast.GeneratorExp() | ast.ListComp() | ast.SetComp():
            conditions = [part for generator in test.generators for part in generator.ifs]
            return any(compares_inside(part) for part in (test.elt, *conditions))
        case _:
            return False


def shows_members(test: ast.expr) -> bool:
    return any(isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In | ast.NotIn) for node in ast.walk(test))


def is_approx(node: ast.expr, names: Names) -> bool:
    return isinstance(node, ast.Call) and evaluate(node.func, names).origin == "pytest.approx"


def _as_bool(test: ast.expr) -> ast.expr:
    match test:
        case ast.Compare() | ast.Call(func=ast.Name(id="isinstance" | "issubclass" | "hasattr" | "callable" | "bool")):
            return test
        case _:
            return ast.UnaryOp(ast.Not(), ast.UnaryOp(ast.Not(), test))


def _identity(kind: str, left: ast.expr, right: ast.expr, names: Names) -> AssertedComparison:
    """Of two objects it is told in the process: no code of theirs is asked. Against something that has a name it is the
    name that counts."""
    values = [evaluate(left, names), evaluate(right, names)]
    places = [place for place, side in enumerate((left, right)) if _has_one_identity(side, values[place], names)]
    if len(places) == 1:
        return AssertedComparison(kind, [left, right], known=frozenset(places))
    same = ast.Compare(left, [ast.Is()], [right])
    return AssertedComparison("truth" if kind == "is" else "falsehood", [same])


def _has_one_identity(node: ast.expr, value: Value, names: Names) -> bool:
    if isinstance(node, ast.Constant):
        return node.value is None or node.value is ... or isinstance(node.value, bool)
    if isinstance(node, ast.Call) and value.known:
        return evaluate(node.func, names).origin == "builtins.type"
    if isinstance(node, ast.Name) and node.id in IDENTITIES:
        return value.origin == f"builtins.{node.id}"
    return isinstance(node, ast.Name | ast.Attribute) and value.names_something and not value.known


def _is_named_constant(node: ast.expr, names: Names) -> bool:
    """`tokens.Keyword`, `FLAGS`, `hashlib.sha256`: by its look a constant or a class of the package, or of the standard
    library; or a display of such. Gold's stands for it."""
    if isinstance(node, ast.Tuple | ast.List):
        return bool(node.elts) and all(
            evaluate(part, names).known or _is_named_constant(part, names) for part in node.elts
        )
    value = evaluate(node, names)
    last = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
    origin = value.origin or "."
    if value.known or not last or origin.startswith("."):
        return False
    return last[:1].isupper() or origin.partition(".")[0] in sys.stdlib_module_names


def _approx(kind: str, left: ast.expr, right: ast.expr, side: int) -> AssertedComparison:
    call = (left, right)[side]
    assert isinstance(call, ast.Call)
    given = dict(zip(("expected", "rel", "abs", "nan_ok"), call.args, strict=False))
    given |= {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
    if (
        kind != "eq"
        or len(call.args) > 4
        or "expected" not in given
        or len(given) < len(call.args) + len(call.keywords)
    ):
        raise UnlowerableError("an unusual approx")
    options: dict[str, Option] = {"side": side}
    for name in ("rel", "abs", "nan_ok"):
        options[name] = _number(given.get(name, ast.Constant(None)))
    operands = [left, right]
    operands[side] = given["expected"]
    return AssertedComparison("approx", operands, options)


def _number(node: ast.expr) -> Option:
    try:
        found = ast.literal_eval(node)
    except ValueError:
        raise UnlowerableError("an unusual approx") from None
    if found is None or isinstance(found, bool | int | float):
        return found
    raise UnlowerableError("an unusual approx")


def _chain(test: ast.Compare, names: Names) -> Iterator[AssertedComparison]:
    """`a == b == c` evaluates b once."""
    sides = [test.left, *test.comparators]
    again = list(sides)
    for place, middle in enumerate(sides[1:-1], 1):
        if not (evaluate(middle, names).known or isinstance(middle, ast.Name | ast.Constant)):
            name = f"_middle_{place}"
            sides[place] = ast.NamedExpr(ast.Name(name, ast.Store()), middle)
            again[place] = ast.Name(name, ast.Load())
    for place, operator in enumerate(test.ops):
        yield compared(KINDS[type(operator)], again[place], sides[place + 1], names)


def _each(inner: ast.GeneratorExp | ast.ListComp, test: ast.expr, names: Names, holds: bool) -> AssertedComparison:
    """`all(f(x) == y for …)` as two lists, where y is known of each x."""
    match inner.elt:
        case ast.Compare(left=left, ops=[ast.Eq()], comparators=[right]) if holds:
            pass
        case _:
            return truth(test, holds)
    lists: list[ast.expr] = [ast.ListComp(side, inner.generators) for side in (left, right)]
    if any(evaluate(side, names).known for side in lists):
        return AssertedComparison("eq", lists)
    raise UnlowerableError("a comparison inside an expression")
