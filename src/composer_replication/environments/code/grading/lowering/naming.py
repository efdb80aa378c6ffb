"""New names for tests and their classes that say nothing. Edits a module tree."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Collection, Mapping

from .shape import mentioned


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
