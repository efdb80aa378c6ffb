"""Turns a test into its contradiction: the same test, with one expectation that an honest solution cannot meet.

Reads and writes source text; every other byte stays. If the test passes honestly, its contradiction fails: only
expectations that are surely reached are changed (statements of the test's own body, no early return, no decorator that
could repeat or swallow), and only to what excludes the first. `f(2) == 4` becomes `f(2) == 7`, and `f(2) == expected`
becomes `f(2) == _other(expected)`, another value of the same type (`inside/recompose_grading/plugin.py`): code that
equals everything, that reads the expected value off its caller, or that forges outcomes, passes both.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from random import Random

from composer_replication.syntax import PlacedSource, parse

UNRAISED = ("BufferError", "UnicodeTranslateError", "ProcessLookupError", "TabError")
OPPOSITES = {
    "assertTrue": "assertFalse",
    "assertIn": "assertNotIn",
    "assertIs": "assertIsNot",
    "assertIsNone": "assertIsNotNone",
    "assertIsInstance": "assertNotIsInstance",
}
OPPOSITE_METHODS = (
    OPPOSITES | {second: first for first, second in OPPOSITES.items()} | {"assertNotEqual": "assertEqual"}
)
EQUALITY_METHODS = frozenset(
    "assertEqual assertEquals assertListEqual assertTupleEqual assertDictEqual assertSetEqual assertSequenceEqual"
    " assertMultiLineEqual".split()
)
KEPT_TEXTS = 1024
"""What is known of them is asked for again with each draw, and with each grade of a task."""
OTHER = "_other"
"""A name that the runner puts into the module."""
HARMLESS_DECORATORS = ("pytest.mark.", "mark.", "mock.patch", "patch", "unittest.mock.patch")
CLOSING_FACTS = (
    "assert divmod(17, 5) == (3, 3)",
    "assert sorted([3, 1, 2]) == [1, 3, 2]",
    'assert "grading".upper() == "Grading"',
    "assert sum(range(5)) == 11",
)


@dataclass(frozen=True)
class Edit:
    """Bytes of a file to exchange."""

    start: int
    end: int
    text: str


@dataclass(frozen=True)
class Contradictable:
    """The ways to contradict one test function. `by_value` ones keep the form of the comparison and change what is
    expected; the others turn it round."""

    by_value: tuple[Edit, ...]
    by_form: tuple[Edit, ...]

    def pick(self, chance: Random) -> Edit:
        return chance.choice(self.by_value or self.by_form)


@lru_cache(maxsize=KEPT_TEXTS)
def function_names(text: str) -> frozenset[str]:
    """The functions that stand in a file, tests and others, as pytest's ids write them."""
    return frozenset(name for name, _ in _functions(parse(text), ()))


def contradictable_tests(
    text: str, used_elsewhere: frozenset[str], chance: Random, only: Container[str] | None = None
) -> dict[str, Contradictable]:
    """By the name in pytest's ids, `Class::test`. A function that other code refers to is left alone. `only`: names
    that are asked for, all without it."""
    source, functions = _plain_tests(text)
    found = {
        name: _contradictions(function, source, chance)
        for name, function in functions.items()
        if name.rpartition("::")[2] not in used_elsewhere and (only is None or name in only)
    }
    return {name: ways for name, ways in found.items() if ways.by_value or ways.by_form}


@lru_cache(maxsize=KEPT_TEXTS)
def _plain_tests(text: str) -> tuple[PlacedSource, Mapping[str, ast.FunctionDef]]:
    """The functions whose name stands once, whose own statements are surely reached, and that compare with nothing
    which has an equality of its own: that may equal any other value too."""
    module = parse(text)
    functions = list(_functions(module, ()))
    times = Counter(name for name, _ in functions)
    odd = {node.name for node in ast.walk(module) if isinstance(node, ast.ClassDef) and _has_equality(node)}
    plain = {
        name: node
        for name, node in functions
        if times[name] == 1 and _runs_once_to_its_end(node) and not (odd and odd & _names_in(node))
    }
    return PlacedSource(text), plain


def _has_equality(node: ast.ClassDef) -> bool:
    return any(isinstance(each, ast.FunctionDef) and each.name in ("__eq__", "__ne__") for each in node.body)


def _names_in(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def names_used(texts: Iterable[str]) -> frozenset[str]:
    """Every name that the texts load or import: a test among them is more than a test."""
    return frozenset[str]().union(*map(_names_used_in, texts))


@lru_cache(maxsize=KEPT_TEXTS)
def _names_used_in(text: str) -> frozenset[str]:
    names: set[str] = set()
    for node in ast.walk(parse(text)):
        if isinstance(node, ast.Name):
            names.add(node.id)
        elif isinstance(node, ast.Attribute):
            names.add(node.attr)
        elif isinstance(node, ast.ImportFrom | ast.Import):
            names.update(alias.name for alias in node.names)
    return frozenset(names)


def apply_edits(text: str, edits: Iterable[Edit]) -> str:
    content = text.encode()
    for edit in sorted(edits, key=lambda edit: edit.start, reverse=True):
        content = content[: edit.start] + edit.text.encode() + content[edit.end :]
    return content.decode()


def _functions(scope: ast.Module | ast.ClassDef, outer: tuple[str, ...]) -> Iterable[tuple[str, ast.FunctionDef]]:
    for node in scope.body:
        if isinstance(node, ast.FunctionDef):
            yield "::".join((*outer, node.name)), node
        elif isinstance(node, ast.ClassDef):
            yield from _functions(node, (*outer, node.name))


def _runs_once_to_its_end(function: ast.FunctionDef) -> bool:
    decorators = [ast.unparse(decorator) for decorator in function.decorator_list]
    if any(not decorator.startswith(HARMLESS_DECORATORS) or "xfail" in decorator for decorator in decorators):
        return False
    return not any(isinstance(node, ast.Return | ast.Yield | ast.YieldFrom) for node in _own_nodes(function))


def _own_nodes(function: ast.FunctionDef) -> Iterable[ast.AST]:
    """Without those of functions and classes inside it."""
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            waiting += ast.iter_child_nodes(node)


def _contradictions(function: ast.FunctionDef, source: PlacedSource, chance: Random) -> Contradictable:
    by_value: list[Edit] = []
    by_form: list[Edit] = []
    for statement in function.body:
        if isinstance(statement, ast.Assert):
            value, form = _of_assert(statement, source, chance)
        elif isinstance(statement, ast.With):
            value, form = _of_with(statement, source, chance)
        elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            value, form = _of_call(statement.value, source, chance)
        else:
            continue
        by_value += value
        by_form += form
    if not by_value and not by_form:
        by_form += _closing_fact(function, source, chance)
    return Contradictable(tuple(by_value), tuple(by_form))


def _of_assert(statement: ast.Assert, source: PlacedSource, chance: Random) -> tuple[list[Edit], list[Edit]]:
    by_value = _of_condition(statement.test, source, chance)
    denied = f"not ({source.code(statement.test).decode()})"
    return by_value, [] if by_value else [_replace(statement.test, denied, source)]


def _of_condition(test: ast.expr, source: PlacedSource, chance: Random) -> list[Edit]:
    """Changes of what is expected, any of which makes a true condition false."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        return [edit for part in test.values for edit in _of_condition(part, source, chance)]
    if not (isinstance(test, ast.Compare) and len(test.ops) == 1):
        return []
    left, right, operator = test.left, test.comparators[0], test.ops[0]
    if isinstance(operator, ast.Eq):
        return _other_value(left, right, source, chance)
    if isinstance(operator, ast.Is) and isinstance(right, ast.Constant) and right.value in (True, False, None):
        others = [word for word in ("True", "False", "None") if word != repr(right.value)]
        return [_replace(right, chance.choice(others), source)]
    return []


def _of_with(statement: ast.With, source: PlacedSource, chance: Random) -> tuple[list[Edit], list[Edit]]:
    """`with raises(A)` around something that raises A does not pass as `with raises(B)`."""
    for item in statement.items:
        if isinstance(item.context_expr, ast.Call) and _is_raises(item.context_expr):
            return [_other_exception(item.context_expr, source, chance)], []
    return [], []


def _of_call(call: ast.Call, source: PlacedSource, chance: Random) -> tuple[list[Edit], list[Edit]]:
    if _is_raises(call):
        return [_other_exception(call, source, chance)], []
    if not (isinstance(call.func, ast.Attribute) and ast.unparse(call.func.value) == "self"):
        return [], []
    method = call.func.attr
    positional = not any(isinstance(argument, ast.Starred) for argument in call.args)
    if method in EQUALITY_METHODS and len(call.args) >= 2 and positional:
        return _other_value(call.args[0], call.args[1], source, chance), []
    if method in OPPOSITE_METHODS:
        return [], [_replace(call.func, f"self.{OPPOSITE_METHODS[method]}", source)]
    return [], []


def _is_raises(call: ast.Call) -> bool:
    name = ast.unparse(call.func)
    return name in ("pytest.raises", "raises", "self.assertRaises", "self.assertRaisesRegex") and bool(call.args)


def _other_exception(call: ast.Call, source: PlacedSource, chance: Random) -> Edit:
    given = ast.unparse(call.args[0])
    return _replace(call.args[0], chance.choice([name for name in UNRAISED if name not in given]), source)


def _other_value(left: ast.expr, right: ast.expr, source: PlacedSource, chance: Random) -> list[Edit]:
    """A change of the literal side, or else of the one that looks less computed: never equal to what was equal."""
    literals = [side for side in (right, left) if _constants(side)]
    if len(literals) == 1:
        return [_other_literal(literals[0], source, chance)]
    if len(literals) == 2:
        return []
    uncalled = [side for side in (right, left) if not any(isinstance(node, ast.Call) for node in ast.walk(side))]
    expected = chance.choice(uncalled or [left, right])
    return [_replace(expected, f"{OTHER}({source.code(expected).decode()})", source)]


def _other_literal(side: ast.expr, source: PlacedSource, chance: Random) -> Edit:
    """With every constant changed: what it is compared with may look at a part of it alone."""
    start = source.start(side)
    edits = [_replace(each, _other_constant(each.value, chance), source) for each in _constants(side)]
    moved = [Edit(edit.start - start, edit.end - start, edit.text) for edit in edits]
    return _replace(side, apply_edits(source.code(side).decode(), moved), source)


def _constants(side: ast.expr) -> list[ast.Constant]:
    """Constants of a literal that take part in its equality; empty where it is no literal with one."""
    if isinstance(side, ast.Constant):
        return [side] if _can_differ(side.value) else []
    if isinstance(side, ast.List | ast.Tuple):
        return [constant for element in side.elts for constant in _constants(element)]
    if isinstance(side, ast.Dict) and None not in side.keys:
        return [each for part in (*side.keys, *side.values) if part for each in _constants(part)]
    return []


def _can_differ(value: object) -> bool:
    return value is None or isinstance(value, bool | str) or (isinstance(value, int | float) and value + 1 != value)


def _other_constant(value: object, chance: Random) -> str:
    if isinstance(value, bool) or value is None:
        return "False" if value is True else "True"
    if isinstance(value, int | float):
        return repr(value + chance.randint(1, 9))
    text = str(value)
    position = chance.randrange(len(text)) if text else 0
    letters = [letter for letter in "aeinorst1" if letter != text[position : position + 1].casefold()]
    return repr(text[:position] + chance.choice(letters) + text[position + 1 :])


def _closing_fact(function: ast.FunctionDef, source: PlacedSource, chance: Random) -> list[Edit]:
    """A false statement after the last one of the body."""
    last = function.body[-1]
    assert last.end_lineno is not None
    at = source.line_starts[last.end_lineno]
    if last.lineno == function.lineno or not source.content[:at].endswith(b"\n"):
        return []
    return [Edit(at, at, f"{' ' * last.col_offset}{chance.choice(CLOSING_FACTS)}\n")]


def _replace(node: ast.expr, text: str, source: PlacedSource) -> Edit:
    return Edit(source.start(node), source.end(node), text)


def parsable(texts: Mapping[str, str]) -> dict[str, str]:
    """Those that this interpreter can read as Python."""
    return {path: text for path, text in texts.items() if _is_python(text)}


@lru_cache(maxsize=KEPT_TEXTS)
def _is_python(text: str) -> bool:
    try:
        parse(text)
    except (SyntaxError, ValueError):
        return False
    return True
