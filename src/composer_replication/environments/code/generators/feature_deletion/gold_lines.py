"""Lines of a solution that nothing else may show, compared without their spaces."""

from __future__ import annotations

from collections.abc import Iterable

from ...tasks.symbols import SourceIndex, code_lines
from ...tasks.task import Symbol

MIN_GOLD_LINE = 8
"""Characters without spaces: `else:` is nobody's secret."""


def gold_lines(index: SourceIndex, symbols: Iterable[Symbol]) -> frozenset[str]:
    """Lines of the bodies that go, without spaces."""
    lines = (
        plain(line)
        for symbol in symbols
        for definition in index.definitions[symbol]
        for member in (index.class_members(symbol) if definition.kind == "class" else (definition,))
        for line in code_lines(index.sources[symbol.file], member.node)
    )
    return frozenset(line for line in lines if len(line) >= MIN_GOLD_LINE)


def without_gold(text: str, gold: frozenset[str]) -> str:
    return "\n".join(line for line in text.splitlines() if plain(line) not in gold)


def plain(line: str) -> str:
    """Without spaces, and without the signs of quotation and of an interactive session."""
    return "".join(line.split()).lstrip(">").removeprefix("...")
