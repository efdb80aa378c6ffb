"""Python source as a tree, read by one thread at a time, and again where a thread of others came between.

CPython 3.11.7 counts the depth of a tree that it builds in one place for all threads. A collection of garbage in the
middle may let another thread build one too, and then `ast.parse` raises `SystemError: AST constructor recursion depth
mismatch` for sound source. `ast.unparse` and `compile` to code do not count there. Reads and writes nothing; what
`ast.parse` raises for the source itself (SyntaxError, ValueError, RecursionError, MemoryError) is not caught. Libraries
that call `ast.parse` on their own, as `inspect.getsource` does, do not wait.
"""

from __future__ import annotations

import ast
import threading
from contextlib import suppress

TRIES = 100

_building = threading.RLock()  # finalizers of the same thread may parse as well


def parse(text: str) -> ast.Module:
    with _building:
        for _ in range(TRIES - 1):
            with suppress(SystemError):
                return ast.parse(text)
        return ast.parse(text)
