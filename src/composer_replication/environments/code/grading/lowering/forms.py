"""Assertions that are calls: unittest's methods, `pytest.raises` and its likes. Reads calls."""

from __future__ import annotations

import ast
from collections.abc import Iterator
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
