"""What the agent is told of a commit: the author's words, the documentation that came with it, what is new, examples.

L0 all of that, L1 without documentation and examples, L2 words and names, L3 the first line and the names that must
exist. No line of the solution is in any of them.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from ...tasks.symbols import SourceIndex
from ...tasks.task import Level, Symbol
from ..feature_deletion.example_tests import example_text, gold_lines, without_gold
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


MIN_WORDS = 4
BY_MACHINES = re.compile(
    r"(?im)^\s*(?:merge (?:pull request|branch|remote|commit|tag)\b.*|this reverts commit.*|cherry[- ]picked from.*"
    r"|\(cherry picked.*|conflicts:.*|(?:[\w-]+-(?:by|id|to|url)|cc):\s.*)$"
)
BRACKETS = re.compile(
    r"(?i)\s*[(\[][^()\[\]\n]*(?:#\d+|\bissues?\s*\d+|\bpr\s*\d+|\bpull\s*\d+|\bby\s|\bthanks\b|\bgh-\d+)[^()\[\]\n]*[)\]]"
)
REFERENCE = re.compile(
    r"(?i)\b(?:(?:fix(?:e[sd])?|close[sd]?|resolve[sd]?|refs?|see|addresses|part of|issues?|pr|pull request|bug)"
    r"\s*:?\s*)*"
    r"(?:(?<![\w&])#\d+|\bgh-\d+|\bissues?\s*#?\d+|\bpull request \d+)(?:\s*(?:,|and)\s*#\d+)*\s*[:.]?"
)
LINK = re.compile(r"<?\bhttps?://\S+")
ADDRESS = re.compile(r"<?\b[\w.+-]+@[\w-]+(?:\.[\w-]+)+>?|(?<![\w`'\"])@[A-Za-z][\w-]+\b(?!\()")
HASH = re.compile(r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,40}\b")
CREDIT = re.compile(
    r"(?i)\b(?:thanks to|patch by|reported by|contributed by|suggested by|based on work by)\b[^.\n]*\.?"
)
REVERT = re.compile(r"(?i)^revert\b")
WORD = re.compile(r"[A-Za-z][A-Za-z_']+")


def cleaned(message: str, people: Collection[str] = ()) -> str:
    """A commit's message without what an agent must not or need not know; empty where nothing is left to say."""
    text = BY_MACHINES.sub("", message)
    for pattern in (BRACKETS, LINK, ADDRESS, CREDIT, REFERENCE, HASH):
        text = pattern.sub("", text)
    names = [re.escape(name) for name in sorted(people, key=len, reverse=True) if " " in name]
    if names:
        text = re.sub(rf"\b(?:{'|'.join(names)})\b", "", text)
    lines = [re.sub(r"[ \t]+$|^[ \t]*[-*+:;,.]+[ \t]*$", "", line) for line in text.splitlines()]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip(" \n:;,-")


def says_something(text: str) -> bool:
    return len(WORD.findall(text)) >= MIN_WORDS


def is_revert(message: str) -> bool:
    return bool(REVERT.match(message.strip()))
