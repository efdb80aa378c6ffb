"""Assertions that are left in a body, and what an exception's catcher may do. Reads trees."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable

from .data import UnlowerableError
from .forms import is_own_method, raising
from .values import Names, evaluate

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


def uses_of_outcome(function: ast.AST, names: Names) -> dict[str, bool]:
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
    whole = {node.id for node in read if node.id in held}
    parts = [node for node in ast.walk(function) if isinstance(node, ast.Attribute)]
    allowed = {id(node.value) for node in parts if node.attr in OUTCOME_PARTS}
    if any(node.id in held and id(node) not in allowed for node in read):
        raise UnlowerableError("details of an exception's catcher")
    return dict.fromkeys(whole, True)
