"""What an answer cost where a part of its prompt was read from the provider's cache, or written to it."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

from .pricing import PER_TOKENS, count, is_plausible, usage_of


class Rates(NamedTuple):
    """Micro-dollars per million tokens: `prompt_micros` and `completion_micros`; `cached_micros` for
    those of the prompt that a cache had, `cache_write_micros` for those put into it."""

    prompt_micros: int
    completion_micros: int
    cached_micros: int
    cache_write_micros: int


def with_cost(answer: dict[str, Any], rates: Rates | None, prompt_bytes: int = 0) -> dict[str, Any]:
    """The answer with its cost in dollars, where it names tokens that can be believed and no cost of its own."""
    told: Any = answer.get("usage")
    if rates is None or not isinstance(told, dict):
        return answer
    usage = cast("dict[str, Any]", told)
    details: Any = usage.get("prompt_tokens_details")
    tokens = usage_of(usage)
    prompt, completion = tokens.prompt_tokens, tokens.completion_tokens
    if usage.get("cost") is not None or not is_plausible(prompt, prompt_bytes) or not isinstance(details, dict):
        return answer
    parts = cast("dict[str, Any]", details)
    read, written = count(parts.get("cached_tokens")), count(parts.get("cache_write_tokens"))
    if read + written > prompt:
        return answer
    micros = (
        (prompt - read - written) * rates.prompt_micros
        + read * rates.cached_micros
        + written * rates.cache_write_micros
        + completion * rates.completion_micros
    )
    return {**answer, "usage": {**usage, "cost": micros / PER_TOKENS / 1_000_000}}
