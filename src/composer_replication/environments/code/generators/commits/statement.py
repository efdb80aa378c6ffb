"""What the agent is told of a commit: the author's words, the documentation that came with it, what is new, examples.

L0 all of that, L1 without documentation and examples, L2 words and names, L3 the first line and the names that must
exist. No line of the solution is in any of them.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ...tasks.symbols import SourceIndex
from ...tasks.task import Level, Symbol
from ..feature_deletion.example_tests import example_text
from ..feature_deletion.gold_lines import gold_lines, without_gold
from ..feature_deletion.import_time import Target
from ..feature_deletion.statement import EXAMPLES, RULES, described, required_names, titled

MAX_DOCUMENT_LINES = 30
MAX_MESSAGE_LINES = 40


@dataclass(frozen=True)
class CommitWords:
    """Of one commit, cleaned."""

    message: str
    documentation: str
    new: tuple[Symbol, ...]
    changed: tuple[Symbol, ...]
    """Functions that stay in the tree in an earlier form."""
    redescribed: tuple[Symbol, ...]
    """Those of the changed ones whose signature or docstring the commit changed."""
    missing: frozenset[Target]
    """Names that the tree no longer has, by module."""


def statements(index: SourceIndex, told: CommitWords, examples: Iterable[str]) -> dict[Level, str]:
    """`examples` names test functions (`path::name`) whose text L0 may show."""
    gold = gold_lines(index, (*told.new, *told.changed))
    opening = f"A change to `{index.repository.name}` was taken back. Make it again. Its author described it so:"
    message = _quoted(told.message.splitlines()[:MAX_MESSAGE_LINES])
    first = _quoted(told.message.splitlines()[:1])
    required = required_names(index, told.missing)
    places = _places(told)
    signatures = [described(index, symbol) for symbol in (*told.new, *told.redescribed)]
    documents = [_quoted(told.documentation.splitlines()[:MAX_DOCUMENT_LINES])] if told.documentation else []
    shown = [text for name in examples if (text := example_text(index, name, gold))]
    details = titled("What is new, or is described anew:", signatures)
    full = [opening, message, *titled("The documentation that came with it:", documents), required, places, *details]
    full += [*titled(EXAMPLES, shown), RULES]
    texts: dict[Level, Sequence[str]] = {
        "L0": full,
        "L1": [opening, message, required, places, *details, RULES],
        "L2": [opening, message, required, places, RULES],
        "L3": [opening, first, required, RULES],
    }
    return {level: without_gold("\n\n".join(filter(None, parts)), gold) + "\n" for level, parts in texts.items()}


def _places(told: CommitWords) -> str:
    lines = [f"- `{symbol.name}` in `{symbol.file}`" for symbol in told.changed]
    return "\n".join(["It changes:", *lines]) if lines else ""


def _quoted(lines: Sequence[str]) -> str:
    return textwrap.indent("\n".join(lines).strip(), "> ", lambda _: True)
