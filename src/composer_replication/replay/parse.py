"""A raw chat-completion body as an action. A truncated or unreadable answer is recorded, never repaired."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any, Literal, NamedTuple

from composer_replication.llm.anthropic import chat_completion
from composer_replication.llm.pricing import usage_of
from composer_replication.records import Usage, canonical_call

from .teachers import same_model

Outcome = Literal["answered", "no_action", "truncated", "mismatched", "failed"]


class Parsed(NamedTuple):
    outcome: Outcome
    action: str | None = None
    served_model: str | None = None
    finish_reason: str | None = None
    usage: Usage = Usage()


def parse_reply(
    body: str, requested_model: str, own_names: Mapping[str, str] | None = None, served_as: Collection[str] = ()
) -> Parsed:
    """Never raises: a body that makes no sense is a failed reply. `own_names`: tools that were sent by another name.
    `served_as`: more names that the model answers by."""
    try:
        return _parse(chat_completion(json.loads(body)), requested_model, own_names or {}, served_as)
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, OverflowError, RecursionError):
        return Parsed("failed")


def _parse(
    answer: dict[str, Any], requested_model: str, own_names: Mapping[str, str], served_as: Collection[str]
) -> Parsed:
    choice: dict[str, Any] = answer["choices"][0]
    calls: list[dict[str, Any]] = choice["message"].get("tool_calls") or []
    served, reason = _text(answer.get("model")), _text(choice.get("finish_reason"))
    action = _action(calls, own_names)
    outcome: Outcome = "answered" if action else "no_action"
    if reason == "length":
        outcome, action = "truncated", None
    elif not same_model(requested_model, served, served_as):
        outcome, action = "mismatched", None
    return Parsed(outcome, action, served, reason, usage_of(answer.get("usage") or {}))


def _action(calls: list[dict[str, Any]], own_names: Mapping[str, str]) -> str | None:
    """Exactly one well-formed call is an action."""
    if len(calls) != 1:
        return None
    try:
        called, arguments = calls[0]["function"]["name"], json.loads(calls[0]["function"]["arguments"])
        action = canonical_call(own_names.get(called, called), arguments)
        action.encode()  # a lone surrogate could not be written down
    except (ValueError, KeyError, TypeError):
        return None
    return action if isinstance(called, str) and isinstance(arguments, dict) else None


def _text(value: object) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise TypeError("not a text")
    value.encode()
    return value
