"""What a commit says about itself, without what an agent must not or need not know.

Out go hashes, links, references to issues, trailers, people, and lines that git or a forge wrote.
"""

from __future__ import annotations

import re
from collections.abc import Collection

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
    """Empty where nothing is left to say."""
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
