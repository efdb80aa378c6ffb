"""Bodies of test functions and helpers, every assertion turned into a statement that sends values. Makes new trees.

`_known(…)` statements stand in the result; they are what a recording has and a graded text has not.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import TypeVar

from .analysis import Analysis, FunctionPlace
from .comparisons import KINDS, AssertedComparison, comparisons, shows_members
from .data import KNOWN, OBSERVE, SEEN, LoweredCheck, UnlowerableError
from .forms import (
    PAIRS,
    SINGLES,
    Raising,
    asserts_something,
    catches_assertions,
    fails_always,
    is_own_method,
    of_method,
    raising,
    refuse_residue,
    uses_of_outcome,
)
from .values import Liveness, Names, Value, evaluate

DENYING: dict[str, type[ast.cmpop]] = {"ne": ast.Eq, "not_in": ast.In, "is_not": ast.Is}
"""The opposite is asked, and the answer must be no."""
IN_PROCESS = {kind: operator for operator, kind in KINDS.items()} | DENYING
Node = TypeVar("Node", bound=ast.AST)


@dataclass
class Numbers:
    """The checks so far, and those whose answer the process itself must give."""

    answered: Collection[int] = ()
    checks: dict[int, LoweredCheck] = field(default_factory=dict[int, LoweredCheck])
    asked: int = 0
    """Checks that ask something of the package."""
    visible: set[int] = field(default_factory=set[int])
    """Checks whose text shows what is expected."""

    def add(self, kind: str, live: tuple[bool, ...], comparison: AssertedComparison | None = None) -> int:
        number = len(self.checks)
        self.checks[number] = LoweredCheck(number, kind, live, dict(comparison.options) if comparison else {})
        return number


class Body:
    """Lowers one function. `hoist`: exceptions of operands belong to the code around, as in helpers and `try`."""

    def __init__(self, place: FunctionPlace, analysis: Analysis, numbers: Numbers) -> None:
        self.place = place
        self.analysis = analysis
        self.numbers = numbers
        self.names: Names = analysis.names(place)
        self.outcomes = uses_of_outcome(place.node, self.names)

    def lowered(self) -> list[ast.stmt]:
        body = self._all(self.place.node.body, hoist=self.place in self.analysis.called)
        refuse_residue(body, self.names, self._is_helper)
        return body or [ast.Pass()]

    def _is_helper(self, call: ast.Call) -> bool:
        return self.analysis.callee(call, self.place) is not None

    def _all(self, body: list[ast.stmt], hoist: bool) -> list[ast.stmt]:
        return [new for statement in body for new in self._statement(statement, hoist)]

    def _block(self, body: list[ast.stmt], hoist: bool) -> list[ast.stmt]:
        return self._all(body, hoist) or ([ast.Pass()] if body else [])

    def _statement(self, node: ast.stmt, hoist: bool) -> list[ast.stmt]:
        match node:
            case ast.Assert(test=ast.Constant(value=value)):
                return [] if value else [ast.Assert(node.test)]
            case ast.Assert():
                return self._checks(self._pattern(node.test) or comparisons(node.test, self.names), hoist)
            case ast.Expr(value=ast.Call() as call):
                return self._call(node, call, hoist)
            case ast.Return(value=ast.Call() as call) if self._asserts_by_call(call):
                return [*self._call(ast.Expr(call), call, hoist), ast.Return()]
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as call) if raising(call, self.names):
                return self._raises(raising(call, self.names), [], name)
            case ast.With():
                return self._with(node, hoist)
            case ast.Try():
                return self._try(node, hoist)
            case ast.For() | ast.AsyncFor() | ast.While() | ast.If():
                body, other = self._block(node.body, hoist), self._block(node.orelse, hoist)
                return [_with_parts(node, body=body, orelse=other)]
            case ast.AsyncWith():
                return [_with_parts(node, body=self._block(node.body, True))]
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                return [self._inner(node)]
            case _:
                return [node]

    def _inner(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.stmt:
        place = next(inner for inner in self.place.inner if inner.node is node)
        if not asserts_something(node, self.names):
            return node
        if place not in self.analysis.called:
            raise UnlowerableError("an assertion in a callback")
        return _with_parts(node, body=Body(place, self.analysis, self.numbers).lowered())

    def _call(self, node: ast.Expr, call: ast.Call, hoist: bool) -> list[ast.stmt]:
        if (found := raising(call, self.names)) is not None:
            return self._raises(found, [], None)
        if self._is_helper(call):
            return [node]
        found = self._pattern(call) or of_method(call, self.names)
        return [node] if found is None else self._checks(found, hoist)

    def _asserts_by_call(self, call: ast.Call) -> bool:
        """`return self.assertEqual(…)` answers None."""
        return not self._is_helper(call) and (is_own_method(call) or "") in (*PAIRS, *SINGLES)

    def _pattern(self, test: ast.expr) -> list[AssertedComparison]:
        """`info.match(p)` of a caught exception."""
        match test:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="match"), args=[pattern], keywords=[]):
                if name in self.outcomes:
                    raised = ast.Attribute(ast.Name(name, ast.Load()), "value", ast.Load())
                    return [AssertedComparison("regex", [ast.Call(ast.Name("str", ast.Load()), [raised], []), pattern])]
            case _:
                pass
        return []

    def _with(self, node: ast.With, hoist: bool) -> list[ast.stmt]:
        expected = [raising(self.analysis.stands_for(item.context_expr), self.names) for item in node.items]
        places = [place for place, found in enumerate(expected) if found is not None]
        if not places:
            quiet = [_without_labels(item) for item in node.items]
            swallows = hoist or not all(_is_subtest(item) for item in node.items)
            return [_with_parts(node, items=quiet, body=self._block(node.body, swallows))]
        first = places[0]
        rest = node.items[first + 1 :]
        inner: list[ast.stmt] = [ast.With(rest, node.body)] if rest else node.body
        target = node.items[first].optional_vars
        if target is not None and not isinstance(target, ast.Name):
            raise UnlowerableError("an unusual raises")
        found = self._raises(expected[first], inner, target.id if target else None)
        return [ast.With(node.items[:first], found)] if first else found

    def _raises(self, expected: Raising | None, body: list[ast.stmt], target: str | None) -> list[ast.stmt]:
        assert expected is not None
        if body and catches_assertions(expected.classes) and asserts_something(ast.Module(body, []), self.names):
            raise UnlowerableError("an assertion whose failure is expected")
        live = (True, False, False) if expected.match else (True, False)
        number = self.numbers.add("raises", live)
        self.numbers.asked += 1
        name = target if target and target in self.outcomes else SEEN
        before: list[ast.stmt] = []
        if expected.action is not None:
            inside: list[ast.stmt] = [_call_statement(name, self._with_arguments_before(expected.action, before))]
        else:
            inside = self._block(body, True)
            match inside:
                case [ast.Expr(value=value)] if not isinstance(value, ast.Yield | ast.YieldFrom):
                    inside = [_call_statement(name, value)]
                case _:
                    pass
        known = [_known(number, 1, expected.classes)]
        known += [_known(number, 2, expected.match)] if expected.match else []
        return [*before, _observing(number, name, inside), *known]

    def _with_arguments_before(self, action: ast.Call, before: list[ast.stmt]) -> ast.Call:
        """The arguments of `raises(E, f, g(x))` are not among what may raise."""
        parts = [action.func, *action.args, *(keyword.value for keyword in action.keywords)]
        names: dict[ast.expr, ast.expr] = {}
        for part in parts:
            calls = any(isinstance(node, ast.Call | ast.Subscript) for node in ast.walk(part))
            if calls and not isinstance(part, ast.Lambda | ast.Starred) and not evaluate(part, self.names).known:
                name = f"_argument_{len(self.numbers.checks)}_{len(names)}"
                before.append(ast.Assign([ast.Name(name, ast.Store())], part))
                names[part] = ast.Name(name, ast.Load())
        keywords = [ast.keyword(part.arg, names.get(part.value, part.value)) for part in action.keywords]
        return ast.Call(names.get(action.func, action.func), [names.get(part, part) for part in action.args], keywords)

    def _try(self, node: ast.Try, hoist: bool) -> list[ast.stmt]:
        expected = self._expected_by_try(node)
        if expected is not None:
            handler = node.handlers[0]
            body = node.body if node.orelse else node.body[:-1]
            number = len(self.numbers.checks)
            caught = f"_caught_{number}"
            self.outcomes.add(caught)
            found = self._raises(Raising(expected, None, None), body, caught)
            if handler.name:
                found.append(
                    ast.Assign(
                        [ast.Name(handler.name, ast.Store())],
                        ast.Attribute(ast.Name(caught, ast.Load()), "value", ast.Load()),
                    )
                )
            return [*found, *self._all(handler.body, hoist)]
        body = ast.Module([*node.body], [])
        swallowing = any(catches_assertions(handler.type) for handler in node.handlers)
        if swallowing and asserts_something(body, self.names):
            raise UnlowerableError("an assertion inside try")
        tried = self._block(node.body, hoist or bool(node.handlers))
        handlers = [_with_parts(handler, body=self._block(handler.body, hoist)) for handler in node.handlers]
        return [
            _with_parts(
                node,
                body=tried,
                handlers=handlers,
                orelse=self._block(node.orelse, hoist),
                finalbody=self._block(node.finalbody, hoist),
            )
        ]

    def _expected_by_try(self, node: ast.Try) -> ast.expr | None:
        """The classes of `try: f(); assert False; except E: …`: the older way to write `raises`."""
        ends = node.orelse if node.orelse else node.body[-1:]
        if len(node.handlers) != 1 or node.finalbody or len(ends) != 1 or not fails_always(ends[0]):
            return None
        classes = node.handlers[0].type
        if classes is None or catches_assertions(classes) or not evaluate(classes, self.names).names_something:
            return None
        return classes if node.orelse or len(node.body) > 1 else None

    def _checks(self, found: Iterable[AssertedComparison], hoist: bool) -> list[ast.stmt]:
        return [new for comparison in list(found) for new in self._check(comparison, hoist)]

    def _check(self, comparison: AssertedComparison, hoist: bool) -> list[ast.stmt]:
        values = [evaluate(operand, self.names) for operand in comparison.operands]
        given = comparison.known
        live = tuple(place not in given if given is not None else not value.known for place, value in enumerate(values))
        if all(value.known for value in values):
            if not any(isinstance(node, ast.Name) for operand in comparison.operands for node in ast.walk(operand)):
                return []
            live = tuple(True for _ in values)
        else:
            self.numbers.asked += 1
        self._refuse_own_comparison(comparison)
        number = self.numbers.add(comparison.kind, live, comparison)
        if number in self.numbers.answered and comparison.kind in IN_PROCESS:
            return self._answered(number, comparison, hoist)
        if comparison.kind in ("truth", "falsehood") and shows_members(comparison.operands[0]):
            self.numbers.visible.add(number)
        sides = [
            pair for pair, is_live in zip(zip(comparison.operands, values, strict=True), live, strict=True) if is_live
        ]
        if len(sides) > 1 and any(_made_without_package(operand, value) for operand, value in sides):
            self.numbers.visible.add(number)
        sent = [operand for operand, is_live in zip(comparison.operands, live, strict=True) if is_live]
        known = [
            _known(number, place, operand)
            for place, (operand, is_live) in enumerate(zip(comparison.operands, live, strict=True))
            if not is_live
        ]
        return [*self._sent(number, sent, hoist), *known]

    def _refuse_own_comparison(self, comparison: AssertedComparison) -> None:
        """`assert same(f(x), y)`, where a function of the file does the comparing."""
        calls = [node for node in ast.walk(comparison.operands[0]) if isinstance(node, ast.Call)]
        if comparison.kind in ("truth", "falsehood") and any(map(self.analysis.compares, calls)):
            raise UnlowerableError("a comparison in a helper's answer")

    def _answered(self, number: int, comparison: AssertedComparison, hoist: bool) -> list[ast.stmt]:
        """The process tells whether it holds: for objects that have no plain form."""
        kind = "falsehood" if comparison.kind in DENYING else "truth"
        self.numbers.checks[number] = LoweredCheck(number, kind, (True,), {})
        self.numbers.visible.add(number)
        left, right = comparison.operands
        told = ast.Compare(left, [IN_PROCESS[comparison.kind]()], [right])
        return self._sent(number, [told], hoist)

    def _sent(self, number: int, operands: list[ast.expr], hoist: bool) -> list[ast.stmt]:
        before: list[ast.stmt] = []
        if hoist:
            names = [f"_value_{number}_{place}" for place, _ in enumerate(operands)]
            before = [
                ast.Assign([ast.Name(name, ast.Store())], operand)
                for name, operand in zip(names, operands, strict=True)
            ]
            operands = [ast.Name(name, ast.Load()) for name in names]
        return [*before, _observing(number, SEEN, [_call_statement(SEEN, *operands)])]


def _made_without_package(operand: ast.expr, value: Value) -> bool:
    """A touched value that stands there as a whole is an input as well; a part of one, `row[1]`, need not be."""
    whole = isinstance(operand, ast.Name)
    return value.level == Liveness.IMPURE or value.names_something or (value.level == Liveness.TOUCHED and not whole)


def _with_parts(node: Node, **parts: object) -> Node:
    fields = {name: getattr(node, name, None) for name in node._fields}
    return type(node)(**(fields | parts))


def _call_statement(name: str, *arguments: ast.expr) -> ast.stmt:
    return ast.Expr(ast.Call(ast.Name(name, ast.Load()), list(arguments), []))


def _known(number: int, place: int, operand: ast.expr) -> ast.stmt:
    return _call_statement(KNOWN, ast.Constant(number), ast.Constant(place), operand)


def _observing(number: int, name: str, body: list[ast.stmt]) -> ast.stmt:
    opened = ast.Call(ast.Name(OBSERVE, ast.Load()), [ast.Constant(number)], [])
    return ast.With([ast.withitem(opened, ast.Name(name, ast.Store()))], body)


def _is_subtest(item: ast.withitem) -> bool:
    call = item.context_expr
    return isinstance(call, ast.Call) and ast.unparse(call.func) in ("self.subTest", "subtests.test")


def _without_labels(item: ast.withitem) -> ast.withitem:
    if not _is_subtest(item):
        return item
    assert isinstance(item.context_expr, ast.Call)
    return ast.withitem(ast.Call(item.context_expr.func, [], []), item.optional_vars)
