"""Actions as the assistant messages of a pair. Nothing that does not parse becomes one."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, cast

from composer_replication.records import JsonObject, Message, ToolCall, canonical_json, canonical_tool_call

from .canonical import parse_action


def is_well_formed(message: Message) -> bool:
    """An assistant message whose calls, if any, all parse, and that says something."""
    calls = message.get("tool_calls", [])
    if message["role"] != "assistant" or not (calls or message["content"].strip()):
        return False
    return all(parse_action(canonical_tool_call(call)) for call in calls)


def action_message(action: str) -> Message:
    """The assistant message that makes one canonical call, or says an agreed text."""
    if parse_action(action) is None:
        said = cast("dict[str, str]", json.loads(action))
        return {"role": "assistant", "content": said["text"]}
    return call_message(action)


def in_schema_order(message: Message, tools: Iterable[JsonObject]) -> Message:
    """The message with the arguments of each call in the order in which its tool lists them: how models write them.

    Canonical calls have their keys sorted, and a preference for that order is not to be learnt.
    """
    calls = message.get("tool_calls")
    if not calls:
        return message
    listed = dict(map(_parameters, tools))
    return {**message, "tool_calls": [_ordered(call, listed.get(call["function"]["name"], [])) for call in calls]}


def _parameters(tool: JsonObject) -> tuple[str, list[str]]:
    function: JsonObject = tool.get("function") or {}
    schema: JsonObject = function.get("parameters") or {}
    return str(function.get("name")), list(schema.get("properties") or {})


def _ordered(call: ToolCall, order: list[str]) -> ToolCall:
    arguments: JsonObject = json.loads(call["function"]["arguments"])
    ordered = {key: arguments[key] for key in order if key in arguments} | arguments
    text = json.dumps(ordered, ensure_ascii=False, separators=(",", ":"))
    return {**call, "function": {"name": call["function"]["name"], "arguments": text}}


def call_message(action: str) -> Message:
    """The assistant message that makes one canonical call."""
    call: dict[str, Any] = json.loads(action)
    function = {"name": call["name"], "arguments": canonical_json(call["arguments"])}
    return {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": "call_chosen", "type": "function", "function": function}],  # type: ignore[typeddict-item]
    }
