"""How hint text is counted, cut and cleaned. The stage knows no tokenizer: a token is a word or a punctuation mark."""

from __future__ import annotations

import re
from functools import lru_cache

from composer_replication.llm.fence import visible

PREFIX = "Reminder: "
MAX_CHARS_PER_TOKEN = 8
PIECE = re.compile(r"\w+|[^\w\s]")
SENTENCE_END = re.compile(r"(?<=[.!?…])\s+")


@lru_cache(maxsize=4096)
def count_tokens(text: str) -> int:
    """Words and punctuation marks: a count that needs no tokenizer."""
    return len(PIECE.findall(text))


def fits(text: str, max_tokens: int) -> bool:
    """Whether a hint keeps the cap. A word without end is one token here and hundreds in a model."""
    return count_tokens(text) <= max_tokens and len(text) <= MAX_CHARS_PER_TOKEN * max_tokens


def clip(text: str, max_tokens: int) -> str:
    """The text, or its first tokens with an ellipsis that counts as one of them."""
    pieces = list(PIECE.finditer(text))
    if len(pieces) <= max_tokens:
        return text
    return text[: pieces[max_tokens - 2].end()] + "…" if max_tokens > 1 else "…"


def clip_words(text: str, max_tokens: int) -> str:
    """The text, or as much of it as ends with a word, outside of brackets, and an ellipsis."""
    cut = clip(text, max_tokens)
    whole = re.sub(r"\s*[(\[{][^)\]}]*$", "", cut.rpartition(" ")[0]).rstrip(" .,:;")
    return cut if cut == text or " " not in whole else f"{whole}…"


def ended(text: str) -> str:
    """The text with a full stop, unless it has an end of its own."""
    return text if text.endswith((".", "!", "?", "…")) else f"{text}."


def sentences(text: str) -> list[str]:
    return [part for part in SENTENCE_END.split(text.strip()) if part]


def one_line(text: str) -> str:
    return " ".join(visible(text).split())
