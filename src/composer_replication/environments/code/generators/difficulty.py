"""How hard a code task looks before anyone has tried it, by measures of the source that has to be written again.

Reads source only. `training.rollouts.curriculum` learns how hard a task is for one policy; until then these measures
order them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable

from ..tasks.repository import Repository
from ..tasks.symbols import Definition, SourceIndex, source_index
from ..tasks.task import Level, Symbol

LEVELS: tuple[Level, ...] = ("L0", "L1", "L2", "L3")


def static_difficulty(
    repository: Repository, symbols: Iterable[Symbol], *, edited_files: int, expected_failing: int
) -> dict[str, float]:
    """Measures of the symbols that a task asks for; a class counts with its methods."""
    index = source_index(repository)
    functions = list(itertools.chain.from_iterable(_functions(index, symbol) for symbol in symbols))
    inside = frozenset(each.symbol for each in functions)
    names = {each.short_name for each in functions}
    own_names = {each.short_name for each in index.functions}
    callers = frozenset[Symbol]().union(*(index.mentioned_by.get(name, frozenset()) for name in names)) - inside
    needed = {name for each in functions for name in each.mentions & own_names} - names
    return {
        "lines": float(sum(each.body_lines for each in functions)),
        "symbols": float(len(functions)),
        "files": float(edited_files),
        "cyclomatic": float(sum(each.cyclomatic for each in functions)),
        "fan_in": float(len(callers)),
        "fan_out": float(len(needed)),
        "tests": float(expected_failing),
    }


def difficulty_score(measures: dict[str, float], level: Level = "L0") -> float:
    """One number to order tasks by, larger for harder. A prior, not a probability: no policy was asked."""
    size = math.log2(1 + measures.get("lines", 0.0)) + 0.5 * math.log2(1 + measures.get("cyclomatic", 0.0))
    spread = 0.5 * math.log2(1 + measures.get("symbols", 0.0)) + math.log2(1 + measures.get("files", 0.0))
    context = 0.25 * math.log2(1 + measures.get("fan_in", 0.0) + measures.get("fan_out", 0.0))
    return size + spread + context + LEVELS.index(level)


def _functions(index: SourceIndex, symbol: Symbol) -> tuple[Definition, ...]:
    definitions = index.definitions.get(symbol, ())
    if definitions and definitions[0].kind == "class":
        return index.class_members(symbol)
    return definitions[:1]
