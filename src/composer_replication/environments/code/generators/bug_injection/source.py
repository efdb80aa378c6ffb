"""A Python file as bytes with the places of its syntax nodes, so that a change touches nothing but its own bytes."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property, lru_cache
from itertools import pairwise

from composer_replication.syntax import PlacedSource, Splice, parse

from ...tasks.symbols import FunctionNode, first_line


class SourceText(PlacedSource):
    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.tree = parse(text)
        self._blocks: dict[tuple[int, int], ast.Module] = {}

    def without(self, statement: ast.stmt) -> Splice:
        """Remove a statement with its lines; where the block would be left empty, `pass` takes its place."""
        first = self.content.rfind(b"\n", 0, self.start(statement)) + 1
        after = self.content.find(b"\n", self.end(statement)) + 1 or len(self.content)
        whole = Splice(first, after, b"")
        rest = self.content[self.end(statement) : after].strip()
        has_lines_alone = not self.content[first : self.start(statement)].strip() and (not rest or rest[:1] == b"#")
        return whole if has_lines_alone and self.apply(whole) is not None else self.replace(statement, "pass")

    def between(self, left: ast.expr, right: ast.expr, old: str, new: str) -> Splice | None:
        """Replace the operator between two operands. Where a comment holds it first, the splice has no effect."""
        start, end = self.end(left), self.start(right)
        gap = self.content[start:end]
        place = gap.find(old.encode())
        if place < 0:
            return None
        return Splice(start + place, start + place + len(old.encode()), new.encode())

    def apply(self, splice: Splice) -> str | None:
        """The new text, or None where it is no Python or means the same."""
        start, end = self._block(splice)
        block = self.content[start : splice.start] + splice.replacement + self.content[splice.end : end]
        try:
            text = (self.content[:start] + block + self.content[end:]).decode()
            changed = parse(block.decode())
        except (SyntaxError, ValueError):
            return None
        return None if is_same_tree(changed, self._parsed(start, end)) else text

    def _block(self, splice: Splice) -> tuple[int, int]:
        """Of the whole top-level statement around a splice: to parse that is enough, and large files have many."""
        starts = [0, *self._top_starts[1:], len(self.content)]
        for start, end in pairwise(starts):
            if start <= splice.start and splice.end <= end:
                return start, end
        return 0, len(self.content)

    @cached_property
    def _top_starts(self) -> list[int]:
        """Of lines on which a top-level statement begins, its decorators included."""
        return sorted({self.line_starts[first_line(statement) - 1] for statement in self.tree.body})

    def _parsed(self, start: int, end: int) -> ast.Module:
        if (start, end) not in self._blocks:
            self._blocks[start, end] = parse(self.content[start:end].decode())
        return self._blocks[start, end]

    @cached_property
    def functions(self) -> dict[str, FunctionNode]:
        """Qualified name -> function, methods too, nested functions not: they belong to the one around them."""
        return dict(_functions(self.tree.body, ""))


@lru_cache(maxsize=256)
def read_source(text: str) -> SourceText | None:
    """None where the text is no Python."""
    try:
        return SourceText(text)
    except (SyntaxError, ValueError, RecursionError):
        return None


def is_same_tree(left: ast.AST, right: ast.AST) -> bool:
    """Without regard to places. Stops at the first difference, unlike a comparison of `ast.dump`."""
    pending: list[tuple[object, object]] = [(left, right)]
    while pending:
        one, other = pending.pop()
        if type(one) is not type(other):
            return False
        if isinstance(one, ast.AST):
            pending += [(getattr(one, field, None), getattr(other, field, None)) for field in one._fields]
        elif isinstance(one, list) and isinstance(other, list):
            parts: tuple[list[object], list[object]] = (one, other)
            if len(parts[0]) != len(parts[1]):
                return False
            pending += zip(*parts, strict=True)
        elif repr(one) != repr(other):  # 0.0 and -0.0 are equal and not the same
            return False
    return True


def _functions(body: list[ast.stmt], prefix: str) -> Iterator[tuple[str, FunctionNode]]:
    for node in body:
        if isinstance(node, FunctionNode):
            yield f"{prefix}{node.name}", node
        elif isinstance(node, ast.ClassDef):
            yield from _functions(node.body, f"{prefix}{node.name}.")
        elif isinstance(node, ast.If | ast.Try):
            yield from _functions(
                [inner for inner in ast.iter_child_nodes(node) if isinstance(inner, ast.stmt)], prefix
            )


def inside(function: FunctionNode) -> Iterator[ast.AST]:
    """Nodes of the body in the order of the text, without docstrings, annotations, decorators and parts of f-strings
    (whose places Python 3.11 does not tell)."""
    body = function.body[1:] if ast.get_docstring(function, clean=False) is not None else function.body
    for statement in body:
        yield from _below(statement)


def _below(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, FunctionNode):
        yield from inside(node)
        return
    yield node
    if isinstance(node, ast.JoinedStr):
        return
    for field, value in ast.iter_fields(node):
        if field == "annotation":
            continue
        for inner in value if isinstance(value, list) else [value]:
            if isinstance(inner, ast.AST):
                yield from _below(inner)
