"""Python source as a tree, read by one thread at a time.

CPython 3.11.7 counts the depth of a tree that it builds in one place for all threads. A collection of garbage in the
middle may let another thread build one too, and then `ast.parse` raises `SystemError: AST constructor recursion depth
mismatch` for sound source. `ast.unparse` and `compile` to code do not count there. Reads and writes nothing; what
`ast.parse` raises for the source itself (SyntaxError, ValueError, RecursionError, MemoryError) is not caught. Callers
of `ast.parse` outside this module do not wait.
"""

from __future__ import annotations

import ast
import threading

_building = threading.RLock()  # finalizers of the same thread may parse as well


def parse(text: str) -> ast.Module:
    with _building:
        return ast.parse(text)
