"""New names for tests and their classes that say nothing. Edits a module tree."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Collection, Mapping

from .shape import mentioned


def renamed(tree: ast.Module, tests: Collection[str]) -> Mapping[str, str]:
    """Gives tests and their classes numbers, in the tree; the new name of each test. A test whose name something else
    mentions keeps it."""
    uses = Counter(mentioned(tree))
    new: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and any(node.name in test.split("::")[:-1] for test in tests):
            new.setdefault(node.name, f"Test_{sum(name.startswith('Test_') for name in new.values())}")
    bases = {id(base) for node in ast.walk(tree) if isinstance(node, ast.ClassDef) for base in node.bases}
    referred = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and id(node) not in bases}
    new = {old: name for old, name in new.items() if old not in referred}
    wanted = {test.rpartition("::")[2] for test in tests}
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name in wanted]
    names = list(dict.fromkeys(node.name for node in functions if not uses[node.name]))
    new |= {name: f"test_{place:03}" for place, name in enumerate(names)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) or (isinstance(node, ast.FunctionDef) and node.name in wanted):
            node.name = new.get(node.name, node.name)
        elif isinstance(node, ast.Name) and id(node) in bases:
            node.id = new.get(node.id, node.id)
    return {test: "::".join(new.get(part, part) for part in test.split("::")) for test in tests}
