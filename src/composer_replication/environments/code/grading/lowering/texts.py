"""Lowers the tests of one file: a text that only computes and sends values, and one that records what gold knows.

Reads source text and gives source text. A test is lowered where the meaning is surely kept; the others are named, each
with the reason, and are to be run in their old form. Nothing that a text holds makes it raise.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from composer_replication.syntax import parse

from .analysis import Analysis, FunctionPlace, places
from .data import KNOWN, LoweredModule, UnlowerableError
from .merging import merged
from .pruning import prune, reads_that_count
from .reach import Reach, homes
from .scopes import is_docstring
from .shape import keep_needed, mentioned
from .statements import Body, Numbers

UNREADABLE = (SyntaxError, ValueError, RecursionError, MemoryError)


@dataclass(frozen=True)
class Trial:
    """Whether a function can be lowered, and how many checks it then has."""

    checks: int = 0
    reason: str = ""


def lower(
    path: str,
    text: str,
    tests: Collection[str],
    packages: Collection[str],
    answered: Collection[int] = (),
    others: Mapping[str, str] = MappingProxyType({}),
) -> LoweredModule:
    """`tests` are functions by their name in pytest's ids, without parameters. `packages` are the graded ones: none of
    them may stand for a module that is taken to be the standard library's. `others` are trusted test files by path:
    what this one imports from them is seen through. `answered` are checks whose operands have no plain form: the
    process itself says whether they hold. The numbers of checks do not depend on it."""
    shadows = [name for name in packages if name in sys.stdlib_module_names]
    if shadows:
        return _nothing(path, dict.fromkeys(tests, f"{shadows[0]} bears a name of the standard library"))
    try:
        return _lowered(path, merged(path, parse(text), others), tests, answered)
    except UNREADABLE as error:
        return _nothing(path, dict.fromkeys(tests, f"unreadable: {type(error).__name__}"))


def _nothing(path: str, left: Mapping[str, str]) -> LoweredModule:
    return LoweredModule(path, "", "", {}, {}, left, frozenset())


def _lowered(path: str, tree: ast.Module, tests: Collection[str], answered: Collection[int]) -> LoweredModule:
    where, left = homes(tree, tests)
    keep_needed(tree, [*where, *where.values()])
    analysis = Analysis(tree, set(where.values()))
    reached = Reach(analysis.places)
    by_name = {place.name: place for place in analysis.places if place.parent is None}
    trials = {place: _trial(place, analysis) for place in analysis.places if place.parent is None}
    good: dict[str, FunctionPlace] = {}
    for test, name in where.items():
        place = by_name[name]
        parts = [place, *reached(place)]
        reasons = [trials[part].reason for part in parts if part in trials and trials[part].reason]
        if reasons:
            left[test] = reasons[0]
        elif not sum(trials[part].checks for part in parts if part in trials):
            left[test] = "no comparison"
        else:
            good[test] = place
    if not good:
        return _nothing(path, left)
    return _written(path, analysis, reached, good, trials, left, answered)


def _trial(place: FunctionPlace, analysis: Analysis) -> Trial:
    numbers = Numbers()
    try:
        Body(place, analysis, numbers).lowered()
    except UnlowerableError as error:
        return Trial(reason=str(error))
    return Trial(numbers.asked)


def _written(
    path: str,
    analysis: Analysis,
    reached: Reach,
    good: Mapping[str, FunctionPlace],
    trials: Mapping[FunctionPlace, Trial],
    left: Mapping[str, str],
    answered: Collection[int],
) -> LoweredModule:
    numbers = Numbers(answered)
    tests = set(good.values())
    helpers = {part for place in tests for part in reached(place)}
    visible: dict[FunctionPlace, bool] = {}
    for place in analysis.places:
        if place.parent is None and (place in tests or place in helpers) and trials[place].checks:
            before = set(numbers.visible)
            place.node.body = Body(place, analysis, numbers).lowered()
            visible[place] = numbers.visible != before
        if place in tests:
            place.node.body = [part for part in place.node.body if not is_docstring(part)] or [ast.Pass()]
    keep_needed(analysis.tree, [*good, *(place.name for place in tests)])
    names = renamed(analysis.tree, [*good, *(place.name for place in tests)])
    recording = ast.unparse(ast.fix_missing_locations(analysis.tree)) + "\n"
    graded = parse(recording)
    _without_known(graded)
    prune(graded, set(names.values()))
    shown = {test for test, place in good.items() if any(visible.get(part) for part in (place, *reached(place)))}
    functions = {test: names[test] for test in good}
    shown |= exposed_tests(parse(recording), graded, functions)
    return LoweredModule(
        path,
        ast.unparse(ast.fix_missing_locations(graded)) + "\n",
        recording,
        functions,
        numbers.checks,
        left,
        frozenset(shown),
    )


def _without_known(tree: ast.Module) -> None:
    for node in ast.walk(tree):
        for part in ("body", "orelse", "finalbody"):
            body = getattr(node, part, None)
            if isinstance(body, list):
                setattr(node, part, [statement for statement in body if not _is_known(statement)])  # pyright: ignore


def _is_known(node: ast.AST) -> bool:
    match node:
        case ast.Expr(value=ast.Call(func=ast.Name(id=name))):
            return name == KNOWN
        case _:
            return False


def renamed(tree: ast.Module, tests: Collection[str]) -> Mapping[str, str]:
    """Gives tests and their classes numbers, in the tree; the new name of each test. What something mentions, by name
    or in a string, keeps its name: it may be part of what is tested."""
    bases = [base for node in ast.walk(tree) if isinstance(node, ast.ClassDef) for base in node.bases]
    uses = Counter(mentioned(tree))
    uses.subtract(base.id for base in bases if isinstance(base, ast.Name))
    owners = {part for test in tests for part in test.split("::")[:-1]}
    wanted = {test.rpartition("::")[2] for test in tests}
    classes = [node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name in owners]
    functions = [node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name in wanted]
    new = {name: f"Test_{place}" for place, name in enumerate(_free(classes, uses))}
    new |= {name: f"test_{place:03}" for place, name in enumerate(_free(functions, uses))}
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) or (isinstance(node, ast.FunctionDef) and node.name in wanted):
            node.name = new.get(node.name, node.name)
    for base in bases:
        if isinstance(base, ast.Name):
            base.id = new.get(base.id, base.id)
    return {test: "::".join(new.get(part, part) for part in test.split("::")) for test in tests}


def _free(names: list[str], uses: Counter[str]) -> list[str]:
    return [name for name in dict.fromkeys(names) if not uses[name]]


def exposed_tests(recording: ast.Module, graded: ast.Module, functions: Mapping[str, str]) -> set[str]:
    """By the names of the source."""
    before = {place.name: place for place in places(recording) if place.parent is None}
    after = {place.name: place for place in places(graded) if place.parent is None}
    outside = {
        name for node in graded.body if not isinstance(node, ast.FunctionDef | ast.ClassDef) for name in _bound(node)
    }
    showing = {place for name, place in after.items() if name in before and _shows(before[name], place, outside)}
    reached = Reach(after.values())
    return {test for test, name in functions.items() if reached.of_test(name) & showing}


def _shows(before: FunctionPlace, after: FunctionPlace, outside: set[str]) -> bool:
    counted = reads_that_count(after.node)
    bound = set(_bound(after.node)) | outside
    taken_apart = _only_taken_apart(after.node)
    read = [
        node.id for operand in _known_operands(before.node) for node in ast.walk(operand) if isinstance(node, ast.Name)
    ]
    return any(name in bound and (not counted[name] or name in taken_apart) for name in read)


def _only_taken_apart(function: ast.AST) -> set[str]:
    """Rows of a table, `row[0]`: one part is given to the package, another may be what is expected."""
    owners = [node.value for node in ast.walk(function) if isinstance(node, ast.Subscript | ast.Attribute)]
    parts = {id(node): node.id for node in owners if isinstance(node, ast.Name)}
    whole = {
        node.id
        for node in ast.walk(function)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and id(node) not in parts
    }
    return set(parts.values()) - whole


def _known_operands(function: ast.AST) -> Iterator[ast.expr]:
    for node in ast.walk(function):
        match node:
            case ast.Call(func=ast.Name(id=name), args=[_, _, operand]) if name == KNOWN:
                yield operand
            case _:
                pass


def _bound(node: ast.AST) -> Iterator[str]:
    for part in ast.walk(node):
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
            yield part.id
        elif isinstance(part, ast.arg):
            yield part.arg
