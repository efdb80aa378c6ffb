"""A message as the policy would write it."""

from __future__ import annotations

import json
from typing import Any

from composer_replication.environments.calls import Call
from composer_replication.records import Message


def policy_text(message: Message) -> str:
    """Its call as compact JSON, or its text."""
    for call in message.get("tool_calls", []):
        arguments: dict[str, Any] = json.loads(call["function"]["arguments"])
        return Call(call["function"]["name"], arguments).render()
    return message["content"]
