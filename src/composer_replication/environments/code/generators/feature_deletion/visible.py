"""The tests that an agent may see: the repository's own without the hidden ones, so that the deleted tree is green.

Hidden test functions, methods and classes go whole (a parametrised test is one function); so does what no longer
imports: names that the deletion took, and whatever in the test modules stands on them. A hidden test that a class
inherits is switched off in that class by `name = None`. A test file without tests left is removed unless another
imports it. All other lines keep their bytes.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from typing import TypeGuard

from ...tasks.repository import Repository
from ...tasks.symbols import Definition, FunctionNode, Module, SourceIndex, parse_module, source_index
from ...tasks.test_ids import test_function
from .cascade import Cascade, Removal, import_graph
from .import_time import bound_names
from .splices import InexactEdit, Marks, cut

Edits = Mapping[str, str | None]
WITHOUT_TESTS = frozenset(("object", "TestCase", "IsolatedAsyncioTestCase"))
MAX_DEPTH = 8
"""Of the bases of bases that are looked at."""


def visible_tests(repository: Repository, edits: Edits, hide: frozenset[str]) -> dict[str, str | None]:
    """New texts of the test files that change, None for a removed one. `hide` holds pytest ids."""
    index = source_index(repository)
    removal = _removal(repository, edits)
    for path, names in _hidden_functions(hide).items():
        if path in index.tests:
            _hide(index, index.tests[path], names, removal.of(path))
    texts = {
        path: _rewritten(index.tests[path], marks)
        for path, marks in removal.marks.items()
        if path in index.tests and marks
    }
    return {path: None if _is_left_empty(index, path, text, texts) else text for path, text in texts.items()}


def gone_tests(repository: Repository, visible: Edits, test_ids: Iterable[str]) -> frozenset[str]:
    """The ids that the rewritten test files no longer have: hidden ones, and others that went with them."""
    index = source_index(repository)
    before = {path: _definitions_by_name(index.tests[path]) for path in visible if path in index.tests}
    after = {
        path: _definitions_by_name(parse_module(path, text)) if text is not None else {}
        for path, text in visible.items()
    }

    def is_gone(function: str) -> bool:
        path, *names = function.split("::")
        if path not in after or not names or ".".join(names) in after[path]:
            return False
        owner = after[path].get(".".join(names[:-1])) if len(names) > 1 else None
        inherited = owner is not None and ".".join(names) not in before.get(path, {})
        return not inherited or names[-1] in _switched_off(owner)

    gone = {function for function in set(map(test_function, test_ids)) if is_gone(function)}
    return frozenset(each for each in test_ids if test_function(each) in gone)


def _definitions_by_name(module: Module) -> dict[str, ast.AST]:
    return {each.symbol.name: each.node for each in module.definitions}


def _switched_off(node: ast.AST | None) -> set[str]:
    return {
        target.id
        for statement in (node.body if isinstance(node, ast.ClassDef) else [])
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Constant)
        for target in statement.targets
        if isinstance(target, ast.Name) and statement.value.value is None
    }


def _removal(repository: Repository, edits: Edits) -> Removal:
    """What the names that the edits took away take with them in the test modules."""
    index, cascade = source_index(repository), Cascade(import_graph(repository))
    for path, text in edits.items():
        module = index.sources.get(path)
        if module is None:
            continue
        if text is None:
            cascade.drop_file(path)
            continue
        left = bound_names(parse_module(path, text))
        for name in cascade.graph.scopes[path].bindings:
            if "." not in name and name not in left:
                cascade.drop_name(path, name)
    return cascade.settle()


def _hidden_functions(hide: Iterable[str]) -> dict[str, set[str]]:
    """Path -> qualified names."""
    found: dict[str, set[str]] = {}
    for test_id in hide:
        path, *names = test_function(test_id).split("::")
        found.setdefault(path, set()).add(".".join(names))
    return found


def _hide(index: SourceIndex, module: Module, names: set[str], marks: Marks) -> None:
    own: dict[str, list[Definition]] = {}
    for definition in module.definitions:
        own.setdefault(definition.symbol.name, []).append(definition)
    for name in names & own.keys():
        marks.statements.update(definition.node for definition in own[name])
    for name in sorted(names):
        owner, _, method = name.rpartition(".")
        for definition in own.get(owner, []):
            inherits = name not in own or method in _inherited_tests(index, definition.node)
            if inherits and isinstance(definition.node, ast.ClassDef):
                marks.closing_lines.setdefault(definition.node, []).append(f"{method} = None")
    for several in own.values():
        for definition in several:
            node = definition.node
            if isinstance(node, ast.ClassDef) and _is_spent(index, definition, names):
                marks.statements.add(node)
                marks.closing_lines.pop(node, None)


def _is_spent(index: SourceIndex, definition: Definition, hidden: set[str]) -> bool:
    """All tests of the class are hidden, its own and those it inherits, and nothing else names the class."""
    tests, known = _tests_of_class(index, definition.node)
    prefix = f"{definition.symbol.name}."
    if not known or not tests or not all(prefix + name in hidden for name in tests):
        return False
    name = definition.short_name
    return not any(name in each.mentions for each in _other_definitions(index, definition))


def _other_definitions(index: SourceIndex, definition: Definition) -> Iterable[Definition]:
    prefix = f"{definition.symbol.name}."
    for module in index.tests.values():
        if definition.short_name in module.words:
            for each in module.definitions:
                inside = each.symbol.file == definition.symbol.file and each.symbol.name.startswith(prefix)
                if each is not definition and not inside:
                    yield each


def _tests_of_class(index: SourceIndex, node: ast.AST, depth: int = 0) -> tuple[set[str], bool]:
    """Names of its tests, and whether all its bases are known."""
    assert isinstance(node, ast.ClassDef)
    tests = {each.name for each in node.body if _is_test(each)}
    known = depth < MAX_DEPTH
    for base in node.bases if known else []:
        name = base.attr if isinstance(base, ast.Attribute) else base.id if isinstance(base, ast.Name) else ""
        if name in WITHOUT_TESTS:
            continue
        found = _classes_named(index, name)
        known = known and len(found) == 1
        for inherited in found[:1]:
            more, all_known = _tests_of_class(index, inherited, depth + 1)
            tests, known = tests | more, known and all_known
    return tests, known


def _classes_named(index: SourceIndex, name: str) -> list[ast.AST]:
    return [
        each.node
        for module in index.tests.values()
        if name in module.words
        for each in module.definitions
        if each.kind == "class" and each.short_name == name
    ]


def _inherited_tests(index: SourceIndex, node: ast.AST) -> set[str]:
    """Of the bases that the test modules define."""
    names = {each.id for each in node.bases if isinstance(each, ast.Name)} if isinstance(node, ast.ClassDef) else set()
    bases = [base for name in sorted(names - WITHOUT_TESTS) for base in _classes_named(index, name)]
    return {test for base in bases for test in _tests_of_class(index, base)[0]}


def _is_test(node: ast.AST) -> TypeGuard[FunctionNode]:
    return isinstance(node, FunctionNode) and node.name.lower().startswith("test")


def _rewritten(module: Module, marks: Marks) -> str | None:
    try:
        return cut(module, marks)
    except InexactEdit:
        return None


def _is_left_empty(index: SourceIndex, path: str, text: str | None, texts: Edits) -> bool:
    if text is None:
        return True
    if not any(map(_holds_tests, index.tests[path].definitions)) or PurePosixPath(path).name == "__init__.py":
        return False
    if any(map(_holds_tests, parse_module(path, text).definitions)):
        return False
    edges = import_graph(index.repository).edges
    return not any(path in edges.get(other, ()) for other in index.tests if texts.get(other, "") is not None)


def _holds_tests(definition: Definition) -> bool:
    """A class with bases may inherit some."""
    if isinstance(definition.node, ast.ClassDef):
        return bool(definition.node.bases)
    return _is_test(definition.node)
