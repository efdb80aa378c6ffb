"""Columns of tables that only held known operands: of parameter sets, of literal tables that a loop goes through, and
arguments of helpers. Edits trees."""

from __future__ import annotations

import ast
from collections import Counter

from .analysis import Analysis, FunctionPlace
from .parameters import argument_names, argument_values, is_param, parameter_rows, parametrize_calls
from .scopes import table_rows
from .values import Names, evaluate

CASE = "_case"


def drop_parameter_columns(place: FunctionPlace, analysis: Analysis, found: Counter[str]) -> None:
    """The number and the order of the sets stay. Labels go: they may say what is expected."""
    if place.name not in analysis.tests:
        return
    for call in parametrize_calls(place.node.decorator_list):
        names, values = argument_names(call), argument_values(call)
        if names is None or values is None or any(keyword.arg == "indirect" for keyword in call.keywords):
            continue
        table = analysis.stands_for(values)
        rows = parameter_rows(table, len(names))
        own = {argument.arg for argument in place.node.args.args}
        if (
            rows is None
            or not isinstance(table, ast.List | ast.Tuple)
            or place.node.args.defaults
            or not own >= set(names)
        ):
            continue
        outer = analysis.module.names
        gone = [column for column, name in enumerate(names) if not found[name] and _column_quiet(rows, column, outer)]
        labelled = any(is_param(element) for element in table.elts) or any(part.arg == "ids" for part in call.keywords)
        if gone or labelled:
            _rewrite_sets(call, names, table, rows, gone)
            _drop_parameters(place.node, {names[column] for column in gone}, CASE if len(gone) == len(names) else None)


def _column_quiet(rows: list[list[ast.expr]], column: int, names: Names) -> bool:
    return all(evaluate(row[column], names).names_something for row in rows)


def _rewrite_sets(
    call: ast.Call, names: list[str], table: ast.List | ast.Tuple, rows: list[list[ast.expr]], gone: list[int]
) -> None:
    kept = [column for column in range(len(names)) if column not in gone]
    sets: list[ast.expr] = []
    for place, (element, row) in enumerate(zip(table.elts, rows, strict=True)):
        values = [row[column] for column in kept] or [ast.Constant(place)]
        marks = (
            [part for part in element.keywords if part.arg == "marks"]
            if isinstance(element, ast.Call) and is_param(element)
            else []
        )
        if marks and isinstance(element, ast.Call):
            sets.append(ast.Call(element.func, values, marks))
        else:
            sets.append(values[0] if len(values) == 1 else ast.Tuple(values, ast.Load()))
    label = ", ".join(names[column] for column in kept) or CASE
    call.args = [ast.Constant(label), ast.List(sets, ast.Load())]
    call.keywords = [part for part in call.keywords if part.arg not in ("ids", "argnames", "argvalues")]


def _drop_parameters(node: ast.FunctionDef | ast.AsyncFunctionDef, gone: set[str], new: str | None) -> None:
    kept = [argument for argument in node.args.args if argument.arg not in gone]
    node.args.args = kept + ([ast.arg(new)] if new else [])


def drop_loop_columns(function: ast.AST, analysis: Analysis, names: Names, counted: Counter[str]) -> None:
    for loop in [node for node in ast.walk(function) if isinstance(node, ast.For)]:
        if not isinstance(loop.target, ast.Tuple) or loop.orelse:
            continue
        table = _table(loop.iter, function, analysis)
        rows = table_rows(table)
        targets = loop.target.elts
        if not rows or any(len(row) != len(targets) for row in rows) or _merges_keys(table, rows):
            continue
        gone = [
            column
            for column, target in enumerate(targets)
            if isinstance(target, ast.Name) and not counted[target.id] and _column_quiet(rows, column, names)
        ]
        if gone:
            _rewrite_loop(loop, targets, rows, [column for column in range(len(targets)) if column not in gone])


def _table(iterable: ast.expr, function: ast.AST, analysis: Analysis) -> ast.expr:
    """A name stands for the one table it was bound to, in the function or the file."""
    match iterable:
        case ast.Name(id=name):
            bound = [
                node
                for node in ast.walk(function)
                if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store)
            ]
            values = [
                node.value
                for node in ast.walk(function)
                if isinstance(node, ast.Assign)
                and [target for target in node.targets if target in bound]
                and len(node.targets) == 1
            ]
            if bound:
                return values[0] if len(bound) == len(values) == 1 else iterable
            return analysis.stands_for(iterable) if analysis.module.names.get(name) is not None else iterable
        case _:
            return iterable


def _merges_keys(table: ast.expr, rows: list[list[ast.expr]]) -> bool:
    """Whether a dict may have fewer entries than it is written with."""
    if not isinstance(table, ast.Call):
        return False
    keys = [row[0].value if isinstance(row[0], ast.Constant) else None for row in rows]
    return None in keys or len(set(keys)) < len(keys)


def _rewrite_loop(loop: ast.For, targets: list[ast.expr], rows: list[list[ast.expr]], kept: list[int]) -> None:
    if not kept:
        loop.target = ast.Name("_", ast.Store())
        loop.iter = ast.Call(ast.Name("range", ast.Load()), [ast.Constant(len(rows))], [])
        return
    one = len(kept) == 1
    loop.target = targets[kept[0]] if one else ast.Tuple([targets[column] for column in kept], ast.Store())
    sets = [row[kept[0]] if one else ast.Tuple([row[column] for column in kept], ast.Load()) for row in rows]
    loop.iter = ast.List(sets, ast.Load())


def drop_arguments(analysis: Analysis) -> None:
    """Parameters of helpers that nothing reads leave the helper and its calls."""
    calls = analysis.calls()
    for place in analysis.places:
        if place not in analysis.called:
            continue
        found = Counter(node.id for node in ast.walk(place.node) if isinstance(node, ast.Name))
        own = place.node.args.args[1 if place.is_method else 0 :]
        for argument in [argument for argument in own if not found[argument.arg]]:
            sites = [(inside, call) for inside, call in calls if analysis.callee(call, inside) is place]
            given = [(analysis.arguments(call, place), inside) for inside, call in sites]
            if all(
                parts is not None and _argument_quiet(parts.get(argument.arg), analysis, inside)
                for parts, inside in given
            ):
                _drop_argument(
                    place.node, argument, [(call, parts) for (_, call), (parts, _) in zip(sites, given, strict=True)]
                )


def _argument_quiet(node: ast.expr | None, analysis: Analysis, inside: FunctionPlace | None) -> bool:
    names = analysis.names(inside) if inside else analysis.module.names
    return node is None or evaluate(node, names).names_something


def _drop_argument(
    node: ast.FunctionDef | ast.AsyncFunctionDef,
    gone: ast.arg,
    sites: list[tuple[ast.Call, dict[str, ast.expr] | None]],
) -> None:
    place = node.args.args.index(gone)
    defaulted = place - (len(node.args.args) - len(node.args.defaults))
    if defaulted >= 0:
        del node.args.defaults[defaulted]
    node.args.args.remove(gone)
    for call, parts in sites:
        value = (parts or {}).get(gone.arg)
        call.args = [part for part in call.args if part is not value]
        call.keywords = [part for part in call.keywords if part.value is not value]
