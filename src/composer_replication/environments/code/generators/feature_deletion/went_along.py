"""What a removal takes besides definitions and imports: entries of tables, aliases, constants of a removed file.

Reads the repository before the deletion and the new texts. Nobody could guess such lines from a name.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from difflib import SequenceMatcher

from ...tasks.symbols import DefinitionNode, Module, SourceIndex, first_line

MAX_LINES = 80


def lines_that_went(index: SourceIndex, edits: Mapping[str, str | None]) -> dict[str, list[str]]:
    """By file, in its order. Statements of which not all would fit are left out: a half would mislead."""
    found: dict[str, list[str]] = {}
    left = MAX_LINES
    for path, text in sorted(edits.items()):
        module = index.sources.get(path)
        if module is None:
            continue
        gone = _gone(module, text)
        for statement in _outside(module):
            lines = [module.lines[line - 1].rstrip() for line in statement if line in gone]
            if lines and len(lines) <= left:
                left -= len(lines)
                found.setdefault(path, []).extend(lines)
    return found


def _gone(module: Module, text: str | None) -> set[int]:
    if text is None:
        return set(range(1, len(module.lines) + 1))
    after = text.splitlines(keepends=True)
    changes = SequenceMatcher(None, module.lines, after, autojunk=False).get_opcodes()
    return {line for kind, start, end, *_ in changes if kind != "equal" for line in range(start + 1, end + 1)}


def _outside(module: Module) -> Iterator[list[int]]:
    """Lines of each statement that is no definition, import or list of exports."""
    for node in module.tree.body:
        is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if is_text or isinstance(node, DefinitionNode | ast.Import | ast.ImportFrom) or _is_exports(node):
            continue
        if any(isinstance(each, DefinitionNode) for each in ast.walk(node)):
            continue
        lines = range(first_line(node), (node.end_lineno or node.lineno) + 1)
        yield [line for line in lines if module.lines[line - 1].strip()]


def _is_exports(node: ast.stmt) -> bool:
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return any(isinstance(each, ast.Name) and each.id == "__all__" for each in targets)
