"""Which parts of a test file some tests need. Reads and edits module trees: whatever nothing needs is taken out."""

from __future__ import annotations

import ast
import sys
from collections.abc import Collection, Iterator

ALWAYS_RUN = frozenset(
    "setUp tearDown setUpClass tearDownClass asyncSetUp asyncTearDown setup teardown setup_method teardown_method"
    " setup_class teardown_class setup_module teardown_module setUpModule tearDownModule setup_function"
    " teardown_function pytestmark pytest_plugins load_tests run id".split()
)
PLAIN_BASES = frozenset(("object", "TestCase", "unittest.TestCase"))


def mentioned(node: ast.AST) -> Iterator[str]:
    """Every name that code may refer to: also by a string, as fixtures and patches are."""
    for part in ast.walk(node):
        if isinstance(part, ast.Name):
            yield part.id
        elif isinstance(part, ast.Attribute):
            yield part.attr
        elif isinstance(part, ast.arg):
            yield part.arg
        elif isinstance(part, ast.Constant) and isinstance(part.value, str):
            yield part.value
            yield from part.value.replace(",", ".").replace(" ", ".").split(".")


def keep_needed(tree: ast.Module, tests: Collection[str]) -> None:
    """`tests` by their names in pytest's ids. Others stay only where something that stays needs them."""
    roots = {part for name in tests for part in name.split("::")}
    own = {node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    needed: set[str] = set()
    kept: set[ast.stmt] = set()
    while True:
        units = [(node, owner) for node, owner in _units(tree, None, kept) if node not in kept]
        new = [node for node, owner in units if _wanted(node, owner, roots, needed, own)]
        if not new:
            break
        kept.update(new)
        needed.update(name for node in new for name in _own_mentions(node))
    _cut(tree, kept)
    tree.body = [
        node for node in (_needed_imports(node, needed) for node in tree.body) if not isinstance(node, ast.Pass)
    ]


def _units(
    scope: ast.Module | ast.ClassDef, owner: ast.ClassDef | None, kept: set[ast.stmt]
) -> Iterator[tuple[ast.stmt, ast.ClassDef | None]]:
    """Statements of the module, and those of classes that stay."""
    for node in scope.body:
        yield node, owner
        if isinstance(node, ast.ClassDef) and node in kept:
            yield from _units(node, node, kept)


def _own_mentions(node: ast.stmt) -> Iterator[str]:
    if not isinstance(node, ast.ClassDef):
        yield from mentioned(node)
        return
    for part in (*node.bases, *node.keywords, *node.decorator_list):
        yield from mentioned(part)


def _cut(scope: ast.Module | ast.ClassDef, kept: set[ast.stmt]) -> None:
    scope.body = [node for node in scope.body if node in kept]
    for node in scope.body:
        if isinstance(node, ast.ClassDef):
            _cut(node, kept)
    if isinstance(scope, ast.ClassDef) and not scope.body:
        scope.body = [ast.Pass()]


def _wanted(node: ast.stmt, owner: ast.ClassDef | None, roots: set[str], needed: set[str], own: set[str]) -> bool:
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            if name in roots | needed | ALWAYS_RUN or name.startswith("pytest_") or _autouse(node):
                return True
            return (
                owner is not None
                and not (name.startswith("test") and _holds_tests(owner))
                and _keeps_all(owner, name, own)
            )
        case ast.ClassDef():
            return node.name in roots | needed
        case ast.Expr(value=ast.Constant()) | ast.If(test=ast.Compare(left=ast.Name(id="__name__"))):
            return False
        case ast.Assign(targets=targets) if owner is None and all(isinstance(target, ast.Name) for target in targets):
            return any(isinstance(target, ast.Name) and target.id in needed | ALWAYS_RUN for target in targets)
        case ast.AnnAssign(target=ast.Name(id=name)) if owner is None:
            return name in needed
        case _:
            return True


def _holds_tests(owner: ast.ClassDef) -> bool:
    return any(isinstance(part, ast.FunctionDef) and part.name.startswith("test") for part in owner.body)


def _keeps_all(owner: ast.ClassDef, name: str, own: set[str]) -> bool:
    """Whether someone unseen may call any method of a class: a base from elsewhere, the package that is given it."""
    bases = {ast.unparse(base) for base in owner.bases}
    return name.startswith("__") or not _holds_tests(owner) or not bases <= PLAIN_BASES | own


def _autouse(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    calls = [part for part in node.decorator_list if isinstance(part, ast.Call)]
    return any(keyword.arg == "autouse" for call in calls for keyword in call.keywords)


def _needed_imports(node: ast.stmt, needed: set[str]) -> ast.stmt:
    """Imports of the standard library and of pytest go where nothing needs them; the package's belong to the test: that
    they work is part of what it asks."""
    match node:
        case ast.ImportFrom(module=module, level=0, names=aliases) if _is_foreign(module) and module != "__future__":
            kept = [alias for alias in aliases if alias.name == "*" or (alias.asname or alias.name) in needed]
            return ast.ImportFrom(module, kept, 0) if kept else ast.Pass()
        case ast.Import(names=aliases):
            kept = [
                alias
                for alias in aliases
                if not _is_foreign(alias.name) or (alias.asname or alias.name.partition(".")[0]) in needed
            ]
            return ast.Import(kept) if kept else ast.Pass()
        case _:
            return node


def _is_foreign(module: str | None) -> bool:
    return (module or "").partition(".")[0] in sys.stdlib_module_names | {"pytest"}
