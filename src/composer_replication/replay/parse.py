"""A raw chat-completion body as an action. A truncated or unreadable answer is recorded, never repaired."""

from __future__ import annotations

import json
from typing import Any, Literal, NamedTuple

from composer_replication.records import Usage, canonical_call

Outcome = Literal["answered", "no_action", "truncated", "mismatched", "failed"]


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
    served = str(answer["model"]) if "model" in answer else None
    reason = choice.get("finish_reason")
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
        function: dict[str, Any] = calls[0]["function"]
        return canonical_call(function["name"], json.loads(function["arguments"]))
    except (ValueError, KeyError, TypeError):
        return None


def _usage(fields: dict[str, Any]) -> tuple[Usage, int]:
    usage = Usage(
        prompt_tokens=int(fields.get("prompt_tokens") or 0), completion_tokens=int(fields.get("completion_tokens") or 0)
    )
    return usage, round(float(fields.get("cost") or 0) * 1_000_000)
