"""What a provider says when it refuses: its own words, short and without secrets, and whether they mean no credit."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple, cast

import orjson

from .fence import visible

MAX_BODY_BYTES = 1 << 16
MAX_WORDS = 300
_FIELDS = ("message", "detail", "error", "msg", "title", "type", "code", "raw", "metadata")
"""Where servers put their reason, the plainest first. `metadata.raw` is what OpenRouter's provider said."""


class NoCredit(NamedTuple):
    """An answer that means an empty account or a spent limit, and not a moment's overload."""

    provider: str
    status: int
    sign: str
    """Part of the answer's words or codes, lower case; empty where the status says it all."""


NO_CREDIT = (
    NoCredit("OpenRouter, DeepSeek, Together, Anthropic's billing_error", 402, ""),
    NoCredit("OpenRouter, the limit of a key", 403, "key limit exceeded"),
    NoCredit("OpenAI", 429, "insufficient_quota"),
    NoCredit("OpenAI", 429, "billing_not_active"),
    NoCredit("OpenAI", 400, "billing_hard_limit_reached"),
    NoCredit("Anthropic", 400, "credit balance is too low"),
    NoCredit("xAI", 403, "used all available credits"),
    NoCredit("xAI", 429, "used all available credits"),
    NoCredit("Moonshot", 429, "exceeded_current_quota_error"),
    NoCredit("Moonshot, Z.ai", 429, "insufficient balance"),
    NoCredit("Z.ai", 429, "余额不足"),
    NoCredit("Alibaba", 400, "arrearage"),
)
"""As their documents and users report them. Mistral tells a spent plan from a wrong key in no way: both are 401."""


class ProviderWords(NamedTuple):
    text: str
    no_credit: bool


def words_of(status: int, body: bytes) -> ProviderWords:
    """Of an answer that is an error; empty where it says nothing."""
    if len(body) > MAX_BODY_BYTES:
        return ProviderWords("", _is_broke(status, ""))
    try:
        error = orjson.loads(body)
    except orjson.JSONDecodeError:
        text = body.decode("utf-8", "replace")
        error = "" if text.lstrip().startswith("<") else text
    return words_of_error(status, error)


def words_of_error(status: int, error: object) -> ProviderWords:
    """Of an error inside HTTP 200."""
    said = list(_said(error))
    return ProviderWords(_shown(" ".join(dict.fromkeys(said))), _is_broke(status, " ".join(said).lower()))


def _is_broke(status: int, said: str) -> bool:
    return any(one.status == status and one.sign in said for one in NO_CREDIT)


def _said(value: Any, depth: int = 0) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict) and depth < 4:
        fields = cast("dict[str, Any]", value)
        for name in _FIELDS:
            yield from _said(fields.get(name), depth + 1)
    elif isinstance(value, list) and depth < 4:
        for item in cast("list[Any]", value)[:3]:
            yield from _said(item, depth + 1)


@lru_cache(256)
def _shown(text: str) -> str:
    """A server may quote the key or the prompt back."""
    from composer_replication.redaction import Redactor

    line = " ".join(visible(text[: 8 * MAX_WORDS]).split())
    clean = Redactor().text(line)
    return clean if len(clean) <= MAX_WORDS else f"{clean[:MAX_WORDS]}…"
