"""Takes out of a graded module what only fed known operands. Edits a module tree.

A step takes out what nothing reads any more and whose evaluation cannot be noticed; steps go on until nothing changes.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Collection

from .analysis import Analysis, FunctionPlace
from .columns import drop_arguments, drop_loop_columns, drop_parameter_columns
from .pure import MUTATORS, READS_ANY_NAME
from .shape import keep_needed
from .values import Names, evaluate

STEPS = 20


def prune(tree: ast.Module, tests: Collection[str]) -> None:
    for _ in range(STEPS):
        before = ast.dump(tree)
        analysis = Analysis(tree, tests)
        for place in analysis.places:
            if place.parent is None:
                _prune_function(place, analysis)
        drop_arguments(analysis)
        keep_needed(tree, tests)
        if ast.dump(tree) == before:
            return


def reads(function: ast.AST) -> Counter[str]:
    return Counter(
        node.id for node in ast.walk(function) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    )


def reads_that_count(function: ast.AST) -> Counter[str]:
    """Without those of statements that only change the name's own value."""
    found = reads(function)
    for node in ast.walk(function):
        if isinstance(node, ast.stmt) and (name := only_changes(node)):
            found[name] -= 1
    return found


def only_changes(node: ast.stmt) -> str | None:
    """The x of `x.append(…)` and of `x[…] = …`."""
    match node:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=method))) if method in MUTATORS:
            return name
        case ast.Assign(targets=[ast.Subscript(value=ast.Name(id=name))]):
            return name
        case ast.AugAssign(target=ast.Subscript(value=ast.Name(id=name))):
            return name
        case _:
            return None


def _prune_function(place: FunctionPlace, analysis: Analysis) -> None:
    found = reads(place.node)
    shared = any(isinstance(node, ast.Global | ast.Nonlocal) for node in ast.walk(place.node))
    if shared or READS_ANY_NAME & set(found):
        return
    counted = reads_that_count(place.node)
    drop_parameter_columns(place, analysis, found)
    names = analysis.names(place)
    drop_loop_columns(place.node, analysis, names, counted)
    _prune_block(place.node, "body", names, counted)


def _prune_block(owner: ast.AST, part: str, names: Names, counted: Counter[str]) -> None:
    body: list[ast.stmt] = getattr(owner, part)
    kept = [node for node in body if not _unread(node, names, counted)]
    for node in kept:
        if isinstance(node, ast.ClassDef):
            continue
        for inner in ("body", "orelse", "finalbody"):
            if isinstance(getattr(node, inner, None), list):
                _prune_block(node, inner, names, counted)
        for handler in getattr(node, "handlers", []):
            _prune_block(handler, "body", names, counted)
    setattr(owner, part, kept or ([ast.Pass()] if part == "body" else []))


def _unread(node: ast.stmt, names: Names, counted: Counter[str]) -> bool:
    match node:
        case ast.Assign(targets=targets, value=value):
            if (name := only_changes(node)) is not None:
                return not counted[name] and _quiet(value, names) and _known_name(name, names)
            written = [name for target in targets for name in _plain_targets(target)]
            return (
                bool(written)
                and "" not in written
                and not any(counted[name] for name in written)
                and _quiet(value, names)
            )
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
            return not counted[name] and _quiet(value, names)
        case ast.AugAssign(target=ast.Name(id=name), value=value):
            return not counted[name] and _quiet(value, names) and _known_name(name, names)
        case ast.Expr(value=ast.Call(args=arguments, keywords=[])) if (name := only_changes(node)) is not None:
            return not counted[name] and _known_name(name, names) and all(_quiet(part, names) for part in arguments)
        case ast.For(iter=iterable, body=[ast.Pass()], orelse=[]):
            return evaluate(iterable, names).known and not any(counted[name] for name in _plain_targets(node.target))
        case ast.FunctionDef(decorator_list=[]):
            return not counted[node.name] and not node.args.defaults and not any(node.args.kw_defaults)
        case ast.Pass():
            return True
        case _:
            return False


def _plain_targets(target: ast.expr) -> list[str]:
    """Names that are written; an empty one stands for anything else."""
    match target:
        case ast.Name(id=name):
            return [name]
        case ast.Tuple(elts=elements) | ast.List(elts=elements):
            return [name for element in elements for name in _plain_targets(element)]
        case _:
            return [""]


def _known_name(name: str, names: Names) -> bool:
    return name in names and names[name].known


def _quiet(node: ast.expr, names: Names) -> bool:
    """Nobody notices whether it is evaluated."""
    return isinstance(node, ast.Lambda) or evaluate(node, names).names_something
