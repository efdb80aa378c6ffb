"""Which new definitions of a package file can run at all: at import, from a task's symbols, or from what was there.

A new function that nothing of this calls, such as a command line or a worker beside the task's code, cannot change a
test's result. Names are followed as plain words, so a name that is used anywhere counts as reached.

Not caught: code that is reached only by a name put together while it runs.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from ..python.trees import parsed

DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
CALLS_LATER = re.compile(r"atexit|register|finalize|hookimpl|fixture")
NAMED_WHILE_RUNNING = re.compile(r"\b(globals|vars|locals)\(\)")


def dormant_definitions(
    changed: Sequence[ast.stmt], tree: ast.Module, before: str, reached_by: frozenset[str]
) -> frozenset[ast.stmt]:
    """Of the changed statements; `reached_by` are the task's symbols and names that other changed files use.

    What did not change can use only names that stood in the file before.
    """
    top = set(tree.body)
    definitions = [node for node in changed if isinstance(node, DEFINITIONS) and node in top]
    known = reached_by | frozenset(re.findall(r"\w+", before))
    if all(node.name in known for node in definitions):
        return frozenset()
    used = set(_words_at_import(changed))
    reached: set[ast.stmt] = set()
    while True:
        more = [
            node
            for node in definitions
            if node not in reached and (node.name in known | used or _is_called_by_others(node))
        ]
        if not more:
            return frozenset(definitions) - reached
        reached.update(more)
        for node in more:
            used.update(_words(node))


def _is_called_by_others(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> bool:
    """By the interpreter or a test runner, for its name or because it was handed over to it."""
    handed_over = (CALLS_LATER.search(ast.unparse(mark)) for mark in node.decorator_list)
    return node.name.startswith(("__", "pytest_")) or any(handed_over)


@lru_cache(maxsize=64)
def words_used(text: str) -> frozenset[str]:
    """Names that a file does more with than import them."""
    tree = parsed(text)
    return frozenset([*_words(tree), *_words_of_aliases(tree)]) if tree else frozenset()


def _words_at_import(body: Sequence[ast.stmt]) -> Iterator[str]:
    for statement in body:
        if isinstance(statement, DEFINITIONS):
            yield from _words_of_definition(statement)
        elif isinstance(statement, ast.Import | ast.ImportFrom) or _only_lists_or_starts(statement):
            continue
        else:
            yield from _words(statement)
            if NAMED_WHILE_RUNNING.search(ast.unparse(statement)):
                yield from (node.name for node in body if isinstance(node, DEFINITIONS))


def _words_of_definition(node: ast.stmt) -> Iterator[str]:
    """What a definition evaluates when it is made."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        for part in [*node.decorator_list, *node.args.defaults, *(each for each in node.args.kw_defaults if each)]:
            yield from _words(part)
    elif isinstance(node, ast.ClassDef):
        for part in [*node.decorator_list, *node.bases, *node.keywords]:
            yield from _words(part)
        for member in node.body:
            yield from _words_of_definition(member) if isinstance(member, DEFINITIONS) else _words(member)


def _only_lists_or_starts(statement: ast.stmt) -> bool:
    shown = ast.unparse(statement)
    return shown.startswith("__all__") or bool(re.match(r"if __name__ == '__main__'", shown))


def _words(node: ast.AST) -> Iterator[str]:
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name):
            yield inner.id
        elif isinstance(inner, ast.Attribute):
            yield inner.attr
        elif isinstance(inner, ast.Constant) and isinstance(inner.value, str) and inner.value.isidentifier():
            yield inner.value


def _words_of_aliases(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from (alias.name.rpartition(".")[2] for alias in node.names if alias.asname)
