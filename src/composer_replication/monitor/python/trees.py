"""Syntax trees of files, kept a while: several layers read the same text. Nobody may change a tree."""

from __future__ import annotations

import ast
from functools import lru_cache

from composer_replication.syntax import parse as parse_anew

KEPT_TREES = 16


@lru_cache(maxsize=KEPT_TREES)
def parse(text: str) -> ast.Module:
    """What it raises for the source (SyntaxError, ValueError, RecursionError, MemoryError) is not kept."""
    return parse_anew(text)
