"""Parameter sets and fixtures of test functions: which values a parameter takes. Reads decorators."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping

from .bindings import parameter_names
from .scopes import is_docstring
from .values import LIVE, Liveness, Names, Value, element_of, evaluate, joined

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


def parametrize_calls(decorators: list[ast.expr]) -> Iterator[ast.Call]:
    for decorator in decorators:
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func).endswith("mark.parametrize"):
            yield decorator


def argument_names(call: ast.Call) -> list[str] | None:
    """None where they are not written out."""
    first = call.args[0] if call.args else _keyword(call, "argnames")
    match first:
        case ast.Constant(value=str() as names):
            return [name.strip() for name in names.split(",") if name.strip()]
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            found = [element.value for element in elements if isinstance(element, ast.Constant)]
            return [str(name) for name in found] if len(found) == len(elements) else None
        case _:
            return None


def argument_values(call: ast.Call) -> ast.expr | None:
    return call.args[1] if len(call.args) > 1 else _keyword(call, "argvalues")


def is_param(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func) in ("pytest.param", "param")


def parameter_rows(values: ast.expr, width: int) -> list[list[ast.expr]] | None:
    """The sets of a literal list, each with `width` values; None where it cannot be read."""
    if not isinstance(values, ast.List | ast.Tuple):
        return None
    rows: list[list[ast.expr]] = []
    for element in values.elts:
        if isinstance(element, ast.Call) and is_param(element):
            row = element.args
        elif width == 1:
            row = [element]
        elif isinstance(element, ast.Tuple | ast.List):
            row = element.elts
        else:
            return None
        if len(row) != width or any(isinstance(part, ast.Starred) for part in row):
            return None
        rows.append(row)
    return rows


def supplied(
    function: FunctionNode,
    decorators: list[ast.expr],
    fixtures: Mapping[str, Value],
    names: Names,
    stands_for: Callable[[ast.expr], ast.expr],
) -> dict[str, Value]:
    """The values that pytest hands to a test or a fixture. `decorators` are its own and those of its class."""
    found = {name: fixtures.get(name, LIVE) for name in parameter_names(function)}
    for call in parametrize_calls(decorators):
        columns, values = argument_names(call), argument_values(call)
        indirect = _keyword(call, "indirect")
        if columns is None or values is None or indirect is not None:
            found |= dict.fromkeys(columns or found, LIVE)
            continue
        rows = parameter_rows(stands_for(values), len(columns))
        for place, column in enumerate(columns):
            if rows is None:
                found[column] = element_of(values, names)
            else:
                found[column] = joined(evaluate(row[place], names) for row in rows)
    return found


def is_fixture(function: FunctionNode) -> bool:
    return any(_fixture_name(decorator).endswith("fixture") for decorator in function.decorator_list)


def known_fixture(function: FunctionNode, names: Names) -> Value:
    """A fixture that only returns something known gives each test a new one."""
    plain = all(not isinstance(decorator, ast.Call) or not decorator.keywords for decorator in function.decorator_list)
    match [part for part in function.body if not is_docstring(part)]:
        case [ast.Return(value=ast.expr() as value)] if plain and not parameter_names(function):
            found = evaluate(value, names)
            return found if found.level <= Liveness.PLAIN else LIVE
        case _:
            return LIVE


def _fixture_name(decorator: ast.expr) -> str:
    return ast.unparse(decorator.func if isinstance(decorator, ast.Call) else decorator)


def _keyword(call: ast.Call, name: str) -> ast.expr | None:
    return next((keyword.value for keyword in call.keywords if keyword.arg == name), None)
