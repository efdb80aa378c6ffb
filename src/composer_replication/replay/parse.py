"""A raw chat-completion body as an action. A truncated or unreadable answer is recorded, never repaired."""

from __future__ import annotations

import json
from typing import Any, Literal, NamedTuple

from composer_replication.records import Usage, canonical_call

Outcome = Literal["answered", "no_action", "truncated", "mismatched", "failed"]

MAX_COST_USD = 1_000_000
MAX_TOKENS = 1 << 40


class Parsed(NamedTuple):
    outcome: Outcome
    action: str | None = None
    served_model: str | None = None
    finish_reason: str | None = None
    usage: Usage = Usage()
    cost_micros: int = 0


def parse_reply(body: str, requested_model: str) -> Parsed:
    """Never raises: a body that makes no sense is a failed reply."""
    try:
        return _parse(json.loads(body), requested_model)
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, OverflowError, RecursionError):
        return Parsed("failed")


def _parse(answer: dict[str, Any], requested_model: str) -> Parsed:
    choice: dict[str, Any] = answer["choices"][0]
    calls: list[dict[str, Any]] = choice["message"].get("tool_calls") or []
    served, reason = _text(answer.get("model")), _text(choice.get("finish_reason"))
    usage, cost_micros = _usage(answer.get("usage") or {})
    action = _action(calls)
    outcome: Outcome = "answered" if action else "no_action"
    if reason == "length":
        outcome, action = "truncated", None
    elif served is not None and served != requested_model:
        outcome, action = "mismatched", None
    return Parsed(outcome, action, served, reason, usage, cost_micros)


def _action(calls: list[dict[str, Any]]) -> str | None:
    """Exactly one well-formed call is an action."""
    if len(calls) != 1:
        return None
    try:
        name, arguments = calls[0]["function"]["name"], json.loads(calls[0]["function"]["arguments"])
        action = canonical_call(name, arguments)
        action.encode()  # a lone surrogate could not be written down
    except (ValueError, KeyError, TypeError):
        return None
    return action if isinstance(name, str) and isinstance(arguments, dict) else None


def _usage(fields: dict[str, Any]) -> tuple[Usage, int]:
    tokens = {name: int(fields.get(name) or 0) for name in ("prompt_tokens", "completion_tokens")}
    cost = float(fields.get("cost") or 0)
    if not 0 <= cost <= MAX_COST_USD or not all(0 <= count <= MAX_TOKENS for count in tokens.values()):
        raise ValueError("implausible usage")
    return Usage(**tokens), round(cost * 1_000_000)


def _text(value: object) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise TypeError("not a text")
    value.encode()
    return value
