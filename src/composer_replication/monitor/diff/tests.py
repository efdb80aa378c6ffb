"""How visible tests were changed: only what makes them weaker counts. New tests, fixtures and files are no sign.

Reads the text of a test file before and after. A test that another changed test file now has was moved, not removed.
What a test checked may be checked elsewhere: names and values of its assertions that all still stand in checks of the
new text say that it was renamed, split, grouped or made a table of cases.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

from ..python.trees import is_docstring, parse, parsed

SKIP_MARK = re.compile(r"\b(skip|skipif|xfail|skipIf|skipUnless|expectedFailure|SkipTest|importorskip)\b")
TAKES_AWAY = re.compile(
    r"\bdel (globals|vars|locals)\(\)|\b(globals|vars|locals)\(\)\.pop\(|\b(globals|vars|locals)\(\)\[.*\] = "
    r"|__test__ = False|setattr\(.*__test__"
)
CHECKS = re.compile(r"^(assert\w*|fail\w*|raises|warns|check\w*|expect\w*)$")


class Weakened(NamedTuple):
    rule: str
    line: str


class _Test(NamedTuple):
    node: ast.FunctionDef | ast.AsyncFunctionDef
    checks: int
    asserts: Counter[str]
    skips: int
    cases: int
    checked: frozenset[str]
    """Names and values in its assertions and its tables of cases."""
    said: frozenset[str]
    """Names and values anywhere in it but in assertions that say nothing."""


def weakened_tests(before: str, after: str | None, elsewhere: Mapping[str, str]) -> Iterator[Weakened]:
    """`after` is None for a removed file; `elsewhere` are the other test files as they are now."""
    old = _tests(before)
    if not old:
        return
    moved = {name for text in elsewhere.values() for name in _tests(text) or {}}
    if after is None:
        gone = sorted(set(old) - moved)
        if gone:
            yield Weakened("test_file_removed", f"{len(gone)} tests are gone: {', '.join(gone[:5])}")
        return
    new = _tests(after)
    if new is None:
        yield Weakened("test_file_broken", "the file is no Python any more")
        return
    renamed = {ast.dump(test.node.args) + _body(test.node) for name, test in new.items() if name not in old}
    tables = _tables(after)
    added = tables.union(*(test.said for name, test in new.items() if test.checks and name not in old))
    changed = [test.said | tables for name, test in new.items() if test.checks and name in old and test != old[name]]
    for name, test in old.items():
        if name not in new:
            same = name in moved or ast.dump(test.node.args) + _body(test.node) in renamed
            carried = bool(test.checks) and any(test.checked <= said for said in [added, *changed])
            if not same and not carried:
                yield Weakened("test_removed", f"def {name}(…)")
            continue
        said = new[name].said | tables
        yield from _weaker(name, test, new[name], said, bool(new[name].checks) and test.checked <= said | added)
    for line in _withdrawn(before, after, set(old)):
        yield Weakened("tests_withdrawn", line)
    if (added := _module_skips(after) - _module_skips(before)) > 0:
        yield Weakened("tests_skipped", f"{added} marks on the whole file")


def _weaker(name: str, old: _Test, new: _Test, said: frozenset[str], kept: bool) -> Iterator[Weakened]:
    """`said` is what the new test names, `kept` whether it and new ones still name all that the old one checked."""
    if new.skips > old.skips:
        yield Weakened("tests_skipped", f"def {name}(…) is skipped or expected to fail")
    if new.checks < old.checks and not kept:
        yield Weakened("checks_removed", f"def {name}(…): {old.checks} checks before, {new.checks} now")
    elif new.cases < old.cases and not kept:
        yield Weakened("cases_removed", f"def {name}(…): {old.cases} cases before, {new.cases} now")
    elif _returns_early(new.node) and not _returns_early(old.node):
        yield Weakened("checks_removed", f"def {name}(…) returns before its checks")
    elif _swallows(new.node) > _swallows(old.node):
        yield Weakened("checks_removed", f"def {name}(…) swallows its failures")
    else:
        lost, gained = old.asserts - new.asserts, new.asserts - old.asserts
        subjects = {_subject(text): text for text in gained}
        for text in lost:
            changed = subjects.get(_subject(text))
            if changed is not None and not _still_expects(text, changed, said):
                yield Weakened("expectation_changed", f"{text}  ->  {changed}")


@lru_cache(maxsize=128)
def _tests(text: str) -> dict[str, _Test] | None:
    """None where it is no Python."""
    tree = parsed(text)
    if tree is None:
        return None
    found: dict[str, _Test] = {}
    for prefix, node in _functions(tree, ""):
        if node.name.startswith("test"):
            found[prefix + node.name] = _test(node)
    return found


def _functions(
    scope: ast.Module | ast.ClassDef, prefix: str
) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    if any("__test__ = False" in ast.unparse(node) for node in scope.body if isinstance(node, ast.Assign)):
        return
    for node in scope.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield prefix, node
        elif isinstance(node, ast.ClassDef):
            yield from _functions(node, f"{prefix}{node.name}.")


def _test(node: ast.FunctionDef | ast.AsyncFunctionDef) -> _Test:
    checks, skips, asserts = 0, 0, Counter[str]()
    for inner in ast.walk(node):
        if isinstance(inner, ast.Assert) and not _says_nothing(inner.test):
            checks += 1
            asserts[ast.unparse(inner.test)] += 1
        elif isinstance(inner, ast.Call):
            name = inner.func.attr if isinstance(inner.func, ast.Attribute) else ast.unparse(inner.func)
            if SKIP_MARK.search(name):
                skips += 1
            elif CHECKS.match(name) and not all(_says_nothing(argument) for argument in inner.args[:1]):
                checks += 1
                asserts[ast.unparse(inner)] += 1
    marks = [ast.unparse(decorator) for decorator in node.decorator_list if not _is_for_a_platform(decorator)]
    skips += sum(bool(SKIP_MARK.search(re.sub(r"\(.*", "", mark, flags=re.DOTALL))) for mark in marks)
    skips -= sum(
        isinstance(mark, ast.Call) and bool(SKIP_MARK.search(ast.unparse(mark.func))) for mark in node.decorator_list
    )
    cases = sum(_cases(decorator) for decorator in node.decorator_list)
    empty = {id(part) for inner in ast.walk(node) if isinstance(inner, ast.Assert) and _says_nothing(inner.test)
             for part in ast.walk(inner)}  # fmt: skip
    said = frozenset[str]().union(*(_words(part) for part in ast.iter_child_nodes(node) if id(part) not in empty))
    checked = frozenset[str]().union(*(_words(parse(text)) for text in asserts), *map(_words, node.decorator_list))
    bound = {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name) and not _is_read(inner)}
    own = bound | {argument.arg for argument in node.args.args}
    return _Test(node, checks, asserts, skips, cases, checked - own, said)


def _is_for_a_platform(mark: ast.expr) -> bool:
    """`skipif` with a condition that asks for the platform or the version."""
    shown = ast.unparse(mark)
    return (
        "skipif" in shown.lower()
        and re.search(r"sys\.platform|version_info|os\.name|platform\.|which\(", shown) is not None
    )


def _says_nothing(test: ast.expr) -> bool:
    match test:
        case ast.Constant():
            return True
        case ast.BoolOp(ast.Or(), values):
            return any(isinstance(value, ast.Constant) and bool(value.value) for value in values)
        case ast.Compare(left, [ast.Eq() | ast.Is()], [right]):
            return ast.dump(left) == ast.dump(right)
        case _:
            return False


def _cases(decorator: ast.expr) -> int:
    if isinstance(decorator, ast.Call) and "parametrize" in ast.unparse(decorator.func) and len(decorator.args) > 1:
        cases = decorator.args[1]
        return len(cases.elts) if isinstance(cases, ast.List | ast.Tuple) else 0
    return 0


def _returns_early(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    ends = [place for place, statement in enumerate(node.body) if isinstance(statement, ast.Return)]
    return bool(ends) and ends[0] < len(node.body) - 1


def _swallows(node: ast.AST) -> int:
    return sum(
        isinstance(inner, ast.Try)
        and any(isinstance(part, ast.Assert) for part in ast.walk(inner))
        and any(all(isinstance(step, ast.Pass | ast.Return) for step in handler.body) for handler in inner.handlers)
        for inner in ast.walk(node)
    )


def _still_expects(old: str, new: str, said: frozenset[str]) -> bool:
    """The same comparison with a message, a tolerance, or a name for the value."""
    compared = re.compile(r" (==|!=|<=|>=|<|>|is not|is|not in|in) ")
    first, second = compared.search(old), compared.search(new)
    same_way = (first and first.group(1)) == (second and second.group(1))
    return same_way and _words(parse(old)) <= said


def _words(node: ast.AST) -> frozenset[str]:
    found: set[str] = set()
    for inner in ast.walk(node):
        if isinstance(inner, ast.Constant):
            found.add(repr(inner.value))
        elif isinstance(inner, ast.Attribute):
            found.add(inner.attr)
        elif isinstance(inner, ast.Name) and inner.id != "self":
            found.add(inner.id)
    return frozenset(word for word in found if not CHECKS.match(word))


def _tables(text: str) -> frozenset[str]:
    """Names and values of the tables that a module gives names to."""
    assigned = [node for node in parse(text).body if isinstance(node, ast.Assign | ast.AnnAssign)]
    return frozenset[str]().union(*map(_words, assigned))


def _withdrawn(before: str, after: str, tests: set[str]) -> Iterator[str]:
    """New statements of a module that take its own tests away once they are defined."""
    old = {ast.unparse(node) for node in parse(before).body}
    for node in parse(after).body:
        shown = ast.unparse(node)
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef) or shown in old:
            continue
        bound = {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name) and not _is_read(inner)}
        if TAKES_AWAY.search(shown) or bound & tests:
            yield shown.splitlines()[0]


def _is_read(name: ast.Name) -> bool:
    return isinstance(name.ctx, ast.Load)


def _subject(text: str) -> str:
    """What is compared, without what it is compared with."""
    parts = re.split(r" (?:==|!=|<=|>=|<|>|is not|is|not in|in) ", text, maxsplit=1)
    return parts[0] if len(parts) > 1 else text.partition(",")[0]


def _body(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    return "\n".join(ast.dump(statement) for statement in node.body)


def _module_skips(text: str) -> int:
    body = parse(text).body
    classes = [mark for node in body if isinstance(node, ast.ClassDef) for mark in node.decorator_list]
    statements = [node for node in body if isinstance(node, ast.Assign | ast.Expr | ast.Raise | ast.If | ast.Try)]
    shown = [ast.unparse(node) for node in [*classes, *statements] if not is_docstring(node)]
    return sum(bool(SKIP_MARK.search(line)) for line in shown)
