"""Python source as a tree, and where its nodes lie in the bytes.

It is read by one thread at a time, and again where a thread of others came between.

CPython 3.11.7 counts the depth of a tree that it builds in one place for all threads. A collection of garbage in the
middle may let another thread build one too, and then `ast.parse` raises `SystemError: AST constructor recursion depth
mismatch` for sound source. `ast.unparse` and `compile` to code do not count there. Reads and writes nothing; what
`ast.parse` raises for the source itself (SyntaxError, ValueError, RecursionError, MemoryError) is not caught. Libraries
that call `ast.parse` on their own, as `inspect.getsource` does, do not wait. Warnings about a text that somebody else
wrote are nobody's business here: they are not shown.
"""

from __future__ import annotations

import ast
import threading
import warnings
from contextlib import suppress
from itertools import accumulate
from typing import NamedTuple

TRIES = 100
PlacedNode = ast.expr | ast.stmt | ast.excepthandler | ast.keyword

for _kind in (SyntaxWarning, DeprecationWarning):  # once: the filters are those of all threads
    warnings.filterwarnings("ignore", category=_kind, module="<unknown>")

_building = threading.RLock()  # finalizers of the same thread may parse as well


def parse(text: str) -> ast.Module:
    with _building:
        for _ in range(TRIES - 1):
            with suppress(SystemError):
                return ast.parse(text)
        return ast.parse(text)


def literal_text(node: ast.AST) -> str:
    """The constant that the node is, as `repr` writes it; empty where it is none."""
    try:
        return repr(ast.literal_eval(node))
    except (ValueError, TypeError, MemoryError, RecursionError, SyntaxError):
        return ""


class Splice(NamedTuple):
    """Bytes of a text to exchange."""

    start: int
    end: int
    replacement: bytes


class PlacedSource:
    """A text as bytes, with the places of its nodes: the columns of a tree count bytes of UTF-8."""

    def __init__(self, text: str) -> None:
        self.content = text.encode()
        self.line_starts = [0, *accumulate(map(len, self.content.splitlines(keepends=True)))]

    def start(self, node: PlacedNode) -> int:
        return self.line_starts[node.lineno - 1] + node.col_offset

    def end(self, node: PlacedNode) -> int:
        assert node.end_lineno is not None and node.end_col_offset is not None
        return self.line_starts[node.end_lineno - 1] + node.end_col_offset

    def code(self, node: PlacedNode) -> bytes:
        return self.content[self.start(node) : self.end(node)]

    def replace(self, node: PlacedNode, replacement: bytes | str) -> Splice:
        new = replacement.encode() if isinstance(replacement, str) else replacement
        return Splice(self.start(node), self.end(node), new)
