"""What a call costs at most, what it will probably cost, and what it did cost. Micro-dollars, whole numbers.

A true upper bound needs no tokenizer: no token of a byte-level vocabulary is shorter than one byte, and a provider's
template adds a bounded number of its own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple, cast

from composer_replication.records import Usage

PER_TOKENS = 1_000_000
TEMPLATE_TOKENS = 1024
"""Room for what a provider adds to a prompt with tools."""
TOKENS_PER_BYTE = 0.28
"""Median over tokenizers on agent traces; a teacher that has answered is estimated by its own ratio."""
MAX_CALL_USD = 1_000
MAX_TOKENS = 1 << 40
MAX_BYTES_PER_TOKEN = 64
"""A usage with fewer prompt tokens than that is not believed. Source code has 3 to 4, long runs of blanks some 20."""
MAX_OVERRUN = 20
"""A provider that asks for more than this many times the upper bound is not believed; its call is in doubt."""


class Prices(NamedTuple):
    """Micro-dollars per million tokens: `prompt_micros` and `completion_micros`."""

    prompt_micros: int
    completion_micros: int


FREE = Prices(0, 0)


class Charge(NamedTuple):
    micros: int
    exact: bool
    usage: Usage


def dollars(micros: int) -> str:
    """With cents, and with what is below them where there is any."""
    whole, _, part = f"{micros / 1e6:,.6f}".partition(".")
    return f"${whole}.{part.rstrip('0'):0<2}"


def worst_micros(prices: Prices, prompt_bytes: int, max_tokens: int) -> int:
    prompt = (prompt_bytes + TEMPLATE_TOKENS) * prices.prompt_micros
    return -(-(prompt + max_tokens * prices.completion_micros) // PER_TOKENS)


def cost_micros(prices: Prices, prompt_tokens: float, completion_tokens: float) -> int:
    total = prompt_tokens * prices.prompt_micros + completion_tokens * prices.completion_micros
    return math.ceil(total / PER_TOKENS)


def learned_prices(cost_micros: int, usage: Usage) -> Prices:
    """Where no price is known: every token as dear as the average token of an answer that told its cost."""
    tokens = max(1, usage.prompt_tokens + usage.completion_tokens)
    each = math.ceil(cost_micros * PER_TOKENS / tokens)
    return Prices(each, each)


def charge(answer: Mapping[str, Any], prices: Prices | None, worst: int, prompt_bytes: int = 0) -> Charge:
    """What an answer says that it cost: its dollars, else its tokens at the known prices.

    An answer that does not say, or says what cannot be, is charged by our own count, the worst case, and not exact.
    """
    fields: Any = answer.get("usage")
    told = cast("dict[str, Any]", fields) if isinstance(fields, dict) else {}
    usage = usage_of(told)
    micros: int | None = None
    if told.get("cost") is not None:
        micros = told_micros(told)
    elif prices is not None and is_plausible(usage.prompt_tokens, prompt_bytes):
        micros = cost_micros(prices, usage.prompt_tokens, usage.completion_tokens)
    if not worst:
        return Charge(micros or 0, True, usage)
    # A priced call that costs nothing is as unlikely as one that costs twenty times its upper bound.
    believed = micros is not None and 0 < micros <= MAX_OVERRUN * worst
    return Charge(micros if micros is not None and believed else worst, believed, usage)


def is_plausible(prompt_tokens: int, prompt_bytes: int) -> bool:
    return prompt_tokens * MAX_BYTES_PER_TOKEN >= max(1, prompt_bytes)


def told_micros(usage: Mapping[str, Any]) -> int | None:
    """`cost` in dollars; with one's own key at OpenRouter that is its fee, and what the provider charged comes on top.

    With OpenRouter's keys the same figure stands there too, marked `is_byok: false`, and is part of the cost.
    """
    own, details = dollars_micros(usage.get("cost"), MAX_CALL_USD), usage.get("cost_details")
    if own is None or usage.get("is_byok") is False or not isinstance(details, dict):
        return own
    upstream = cast("dict[str, Any]", details).get("upstream_inference_cost") or 0
    charged = dollars_micros(upstream, MAX_CALL_USD)
    return None if charged is None else own + charged


def dollars_micros(value: object, limit_usd: float = 1e9) -> int | None:
    """Micro-dollars, rounded up; None for what is no amount."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= limit_usd:
        return None
    return math.ceil(value * 1_000_000 - 1e-3)


def usage_of(told: Mapping[str, Any]) -> Usage:
    """Token counts, 0 where they are missing or make no sense."""
    prompt, completion = (count(told.get(name)) for name in ("prompt_tokens", "completion_tokens"))
    return Usage(prompt_tokens=prompt, completion_tokens=completion)


def count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_TOKENS else 0
