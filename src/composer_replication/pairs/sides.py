"""Actions as the assistant messages of a pair. Nothing that does not parse becomes one."""

from __future__ import annotations

import json
from typing import Any, cast

from composer_replication.records import Message, canonical_json, canonical_tool_call

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


def call_message(action: str) -> Message:
    """The assistant message that makes one canonical call."""
    call: dict[str, Any] = json.loads(action)
    function = {"name": call["name"], "arguments": canonical_json(call["arguments"])}
    return {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": "call_chosen", "type": "function", "function": function}],  # type: ignore[typeddict-item]
    }
