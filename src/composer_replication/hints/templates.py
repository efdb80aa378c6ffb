"""Template hints: one short reminder per error kind, made of facts that are already in the agent's context.

A template never quotes the call that failed and never names the right one. `LEAK_LEVELS` says how much each gives away.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from typing import Any, Literal, cast

from typing_extensions import TypedDict

MAX_NAMED_TOOLS = 8
JSON_TYPES = {"string": "str", "integer": "int", "number": "number", "boolean": "bool"}


class HintContext(TypedDict, total=False):
    """What is known about one error."""

    error_kind: str
    error_message: str
    available_tools: list[str]
    tool_name: str
    tool_schema: dict[str, Any]
    intent: str


def _tool_not_found(context: HintContext) -> str:
    names = _nearest(context)
    if not names:
        return "Reminder: call only tools that are listed."
    return f"Reminder: the tools listed here are {', '.join(names)}."


def _json_decode(context: HintContext) -> str:
    return 'Reminder: a call is one JSON object. Close every " and every }.'


def _type_error(context: HintContext) -> str:
    properties: dict[str, Any] = context.get("tool_schema", {}).get("properties", {})
    if not properties or "tool_name" not in context:
        return "Reminder: give each argument the type that the tool declares."
    types = [f"{name}:{_type_name(schema)}" for name, schema in properties.items()]
    return f"Reminder: {context['tool_name']} takes {', '.join(types)}."


def _type_name(schema: Any) -> str:
    declared = cast("dict[str, Any]", schema).get("type") if isinstance(schema, dict) else None
    return JSON_TYPES.get(declared, declared) if isinstance(declared, str) else "any"


def _runtime_error(context: HintContext) -> str:
    message = context.get("error_message", "").strip()
    reason = f" It says: {message}." if message else ""
    return f"Reminder: a tool can refuse a call.{reason} Use what exists."


def _repeated_failure(context: HintContext) -> str:
    names = [name for name in _nearest(context) if name != context.get("tool_name")]
    others = f" Listed: {', '.join(names)}." if names else ""
    return f"Reminder: that call has failed before. Try another one.{others}"


def _nearest(context: HintContext) -> list[str]:
    """Listed tools, those spelt most like the failing one when there are too many to name."""
    names = context.get("available_tools", [])
    if len(names) <= MAX_NAMED_TOOLS:
        return names
    return difflib.get_close_matches(context.get("tool_name", ""), names, n=MAX_NAMED_TOOLS, cutoff=0.0)


HINT_TEMPLATES: dict[str, Callable[[HintContext], str]] = {
    "tool_not_found": _tool_not_found,
    "json_decode": _json_decode,
    "type_error": _type_error,
    "runtime_error": _runtime_error,
    "repeated_failure": _repeated_failure,
}

LEAK_LEVELS: dict[str, Literal["L0", "L1"]] = {
    "tool_not_found": "L1",
    "json_decode": "L0",
    "type_error": "L1",
    "runtime_error": "L0",
    "repeated_failure": "L1",
}


def dispatch(error_kind: str, context: HintContext | None = None) -> str | None:
    """The hint for an error kind, or None where no template exists."""
    template = HINT_TEMPLATES.get(error_kind)
    return template(context or {}) if template else None


def register(error_kind: str, template: Callable[[HintContext], str], leak_level: Literal["L0", "L1"] = "L1") -> None:
    """Add or replace the template of one kind, and say how much it gives away."""
    HINT_TEMPLATES[error_kind] = template
    LEAK_LEVELS[error_kind] = leak_level
