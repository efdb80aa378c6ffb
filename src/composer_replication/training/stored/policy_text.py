"""A message as the policy would write it."""

from __future__ import annotations

import json
from typing import Any

from composer_replication.environments.calls import Call, marked
from composer_replication.records import Message, ToolCall


def policy_text(message: Message) -> str:
    """Its call as compact JSON, several each between marks, or its text."""
    calls = [_call(call) for call in message.get("tool_calls", [])]
    if len(calls) > 1:
        return "\n".join(map(marked, calls))
    return calls[0].render() if calls else message["content"]


def _call(call: ToolCall) -> Call:
    arguments: dict[str, Any] = json.loads(call["function"]["arguments"])
    return Call(call["function"]["name"], arguments)
