"""Which functions stand next to those of a feature and take the same arguments, as calls of them.

Pure functions from a syntax tree to source text.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from difflib import SequenceMatcher

from ..tasks.symbols import FunctionNode


def calls_of_neighbours(tree: ast.AST, wanted: list[FunctionNode], most: int) -> dict[int, list[str]]:
    """First line of a wanted function -> statements that call a neighbour, the one with the likest name first."""
    ours = set(map(id, wanted))
    found: dict[int, list[str]] = {}
    for block in _blocks(tree):
        others = [function for function in block if id(function) not in ours]
        for function in block:
            if id(function) in ours:
                near = [other for other in others if _parameters(other) == _parameters(function)]
                near.sort(key=lambda other: -SequenceMatcher(None, other.name, function.name).ratio())
                found[function.lineno] = [f"return {_call(other)}" for other in near[:most]]
    return found


def _blocks(tree: ast.AST) -> Iterator[list[FunctionNode]]:
    """The plain functions of the module, then the plain methods of each class."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef)):
            yield [each for each in node.body if isinstance(each, ast.FunctionDef) and not each.decorator_list]


def _parameters(function: FunctionNode) -> str:
    """Their names: what they are taken to be, and what stands for them where they are left out, may differ."""
    given = function.args
    every = [*given.posonlyargs, *given.args, given.vararg, *given.kwonlyargs, given.kwarg]
    return f"{' '.join(each.arg if each else '-' for each in every)} {len(given.args)}"


def _call(function: FunctionNode) -> str:
    given = function.args
    names = [each.arg for each in (*given.posonlyargs, *given.args)]
    is_method = names[:1] == ["self"]
    handed = [*names[is_method:], *([f"*{given.vararg.arg}"] if given.vararg else [])]
    handed += [f"{each.arg}={each.arg}" for each in given.kwonlyargs]
    handed += [f"**{given.kwarg.arg}"] if given.kwarg else []
    return f"{'self.' if is_method else ''}{function.name}({', '.join(handed)})"
