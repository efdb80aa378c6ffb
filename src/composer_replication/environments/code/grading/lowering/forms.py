"""Assertions that are calls: unittest's methods, `pytest.raises` and its likes; and those that are left in a body."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from .comparisons import AssertedComparison, compared, comparisons, named_class
from .data import Option, UnlowerableError
from .values import Names, evaluate

PAIRS = {
    **dict.fromkeys(
        "assertEqual assertEquals assertListEqual assertTupleEqual assertDictEqual assertSetEqual"
        " assertSequenceEqual assertMultiLineEqual".split(),
        "eq",
    ),
    "assertNotEqual": "ne",
    "assertIs": "is",
    "assertIsNot": "is_not",
    "assertIn": "in",
    "assertNotIn": "not_in",
    "assertLess": "lt",
    "assertLessEqual": "le",
    "assertGreater": "gt",
    "assertGreaterEqual": "ge",
    "assertAlmostEqual": "almost_equal",
    "assertNotAlmostEqual": "not_almost_equal",
    "assertCountEqual": "count_equal",
    "assertRegex": "regex",
    "assertNotRegex": "not_regex",
    "assertIsInstance": "isinstance",
    "assertNotIsInstance": "not_isinstance",
}
EXACT_TYPES = {
    "assertListEqual": "list",
    "assertTupleEqual": "tuple",
    "assertDictEqual": "dict",
    "assertSetEqual": "set",
    "assertMultiLineEqual": "str",
}
SINGLES = ("assertTrue", "assertFalse", "assertIsNone", "assertIsNotNone")
RAISING_METHODS = ("assertRaises", "assertRaisesRegex")


def is_own_method(call: ast.Call) -> str | None:
    match call.func:
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            return name
        case _:
            return None


def of_method(call: ast.Call, names: Names) -> Iterator[AssertedComparison] | None:
    """The comparisons of `self.assertEqual(a, b)` and its likes; None where it is no such call."""
    method = is_own_method(call)
    if method not in PAIRS and method not in SINGLES:
        return None
    if any(isinstance(part, ast.Starred) for part in call.args) or any(not part.arg for part in call.keywords):
        raise UnlowerableError("starred arguments of an assertion")
    given = {part.arg: part.value for part in call.keywords if part.arg not in ("msg", "places", "delta", "seq_type")}
    operands = [*call.args, *given.values()]
    if not operands:
        raise UnlowerableError("an unusual call of an assertion")
    if method in SINGLES:
        return _single(method, operands[0], names)
    if len(operands) < 2 or (given and list(given) not in (["second"], ["first", "second"])):
        raise UnlowerableError("an unusual call of an assertion")
    return _pair(method, call, operands, names)


def _single(method: str, value: ast.expr, names: Names) -> Iterator[AssertedComparison]:
    if method in ("assertIsNone", "assertIsNotNone"):
        yield compared("is", value, ast.Constant(None), names, method == "assertIsNone")
    else:
        yield from comparisons(value, names, method == "assertTrue")


def _pair(method: str, call: ast.Call, operands: list[ast.expr], names: Names) -> Iterator[AssertedComparison]:
    kind, (first, second) = PAIRS[method], operands[:2]
    if "almost" in kind:
        yield AssertedComparison(kind, [first, second], _places(call))
    elif kind in ("isinstance", "not_isinstance"):
        asked = ast.Call(ast.Name("isinstance", ast.Load()), [first, second], [])
        yield from comparisons(asked, names, kind == "isinstance")
    elif kind in ("count_equal", "regex", "not_regex"):
        yield AssertedComparison(kind, [first, second])
    else:
        found = compared(kind, first, second, names)
        if method in EXACT_TYPES:
            found.options["type"] = EXACT_TYPES[method]
        yield found


def _places(call: ast.Call) -> dict[str, Option]:
    given = dict(zip(("places", "msg", "delta"), call.args[2:], strict=False))
    given |= {part.arg: part.value for part in call.keywords if part.arg}
    options: dict[str, Option] = {}
    for name in ("places", "delta"):
        node = given.get(name, ast.Constant(None))
        if not (isinstance(node, ast.Constant) and isinstance(node.value, int | float | None)):
            raise UnlowerableError("a computed precision")
        options[name] = node.value
    return options


@dataclass
class Raising:
    """What must come out of a block."""

    classes: ast.expr
    match: ast.expr | None
    action: ast.Call | None
    """The call form's call."""


def raising(call: ast.expr, names: Names) -> Raising | None:
    """None where it expects no exception."""
    if not isinstance(call, ast.Call):
        return None
    method = is_own_method(call)
    if method not in RAISING_METHODS and evaluate(call.func, names).origin != "pytest.raises":
        return None
    keywords = {part.arg: part.value for part in call.keywords}
    arguments = list(call.args)
    classes = keywords.pop("expected_exception", None) or (arguments.pop(0) if arguments else None)
    if classes is None or isinstance(classes, ast.Starred) or None in keywords:
        raise UnlowerableError("an unusual raises")
    match = arguments.pop(0) if method == "assertRaisesRegex" and arguments else None
    action: ast.Call | None = None
    if arguments:
        parts = [ast.keyword(name, value) for name, value in keywords.items()]
        action = ast.Call(arguments[0], arguments[1:], parts)
    else:
        match = match or keywords.pop("match", None) or keywords.pop("expected_regex", None)
        keywords.pop("msg", None)
        if keywords:
            raise UnlowerableError("an unusual raises")
    if isinstance(match, ast.Constant) and match.value is None:
        match = None
    if not named_class(classes, names) or (match is not None and not evaluate(match, names).known):
        raise UnlowerableError("an expected exception that is computed")
    return Raising(classes, match, action)


OUTCOME_PARTS = ("value", "type", "exception", "match")
CATCH_ALL = frozenset(("AssertionError", "Exception", "BaseException"))
PYTEST_ASSERTIONS = frozenset(("pytest.raises", "pytest.warns", "pytest.deprecated_call"))


def asserts_something(node: ast.AST, names: Names) -> bool:
    return any(isinstance(part, ast.Assert) or bool(_is_assertion(part, names)) for part in ast.walk(node))


def catches_assertions(classes: ast.expr | None) -> bool:
    if classes is None:
        return True
    return any(isinstance(node, ast.Name) and node.id in CATCH_ALL for node in ast.walk(classes))


def fails_always(node: ast.stmt) -> bool:
    match node:
        case ast.Assert(test=ast.Constant(value=value)):
            return not value
        case ast.Raise(exc=ast.Call(func=ast.Name(id="AssertionError")) | ast.Name(id="AssertionError")):
            return True
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id="self" | "pytest"), attr="fail"))):
            return True
        case _:
            return False


def refuse_residue(body: Iterable[ast.stmt], names: Names, is_helper: Callable[[ast.Call], bool]) -> None:
    for node in (part for statement in body for part in ast.walk(statement)):
        if isinstance(node, ast.Assert) and not isinstance(node.test, ast.Constant):
            raise UnlowerableError("an assertion in a callback")
        if isinstance(node, ast.Call) and not is_helper(node) and (reason := _is_assertion(node, names)):
            raise UnlowerableError(reason)


def _is_assertion(node: ast.AST, names: Names) -> str:
    """Why a call asserts something by itself; empty where it does not."""
    if not isinstance(node, ast.Call):
        return ""
    name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
    if name.startswith("assert") and name != "asserts":
        return "an assertion method" if is_own_method(node) else "mock's own assertion"
    origin = evaluate(node.func, names).origin or ""
    return origin if origin in PYTEST_ASSERTIONS else ""


def uses_of_outcome(function: ast.AST, names: Names) -> set[str]:
    """Names that hold what `raises` gives back, where they are read."""
    held: set[str] = set()
    for node in ast.walk(function):
        if isinstance(node, ast.With):
            for item in node.items:
                if isinstance(item.optional_vars, ast.Name) and raising(item.context_expr, names) is not None:
                    held.add(item.optional_vars.id)
        elif isinstance(node, ast.Assign) and raising(node.value, names) is not None:
            held.update(target.id for target in node.targets if isinstance(target, ast.Name))
    read = [node for node in ast.walk(function) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)]
    parts = [node for node in ast.walk(function) if isinstance(node, ast.Attribute)]
    allowed = {id(node.value) for node in parts if node.attr in OUTCOME_PARTS}
    if any(node.id in held and id(node) not in allowed for node in read):
        raise UnlowerableError("details of an exception's catcher")
    return {node.id for node in read if node.id in held}
