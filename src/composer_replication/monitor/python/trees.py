"""Syntax trees of files, kept a while, and small questions about their nodes. Nobody may change a tree."""

from __future__ import annotations

import ast
from functools import lru_cache

from composer_replication.syntax import parse as parse_anew

KEPT_TREES = 16
UNREADABLE = (SyntaxError, ValueError, RecursionError, MemoryError)


@lru_cache(maxsize=KEPT_TREES)
def parse(text: str) -> ast.Module:
    """Several layers read the same text. What it raises for the source (`UNREADABLE`) is not kept."""
    return parse_anew(text)


def parsed(text: str) -> ast.Module | None:
    """None where it is no Python that can be read."""
    try:
        return parse(text)
    except UNREADABLE:
        return None


def method_of(call: ast.Call) -> str:
    """`read` of `path.read()`; empty for a plain function."""
    return call.func.attr if isinstance(call.func, ast.Attribute) else ""


def is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def names_in(node: ast.AST) -> frozenset[str]:
    return frozenset(inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name))
