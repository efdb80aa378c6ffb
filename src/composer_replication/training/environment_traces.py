"""Rollouts of TRL's own tool loop as traces, so that the detectors and hints of the pipeline apply to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from composer_replication.records import Message, Source, ToolCall, Trace, Turn, canonical_json, content_id

AGENT = "environment"
# TRL turns an exception of a tool into a message that starts so.
_RAISED = "{'error': "


def trace_of_messages(prompt: Sequence[Mapping[str, Any]], completion: Sequence[Mapping[str, Any]]) -> Trace:
    """Each assistant message of the completion is a turn; results belong to its calls in order."""
    messages: list[Message] = [_plain(message) for message in prompt]
    starts: list[int] = []
    waiting: list[str] = []
    for message in completion:
        plain = _plain(message)
        if plain["role"] == "assistant":
            calls = _calls(message, len(starts))
            if calls:
                plain["tool_calls"] = calls
            waiting = [call["id"] for call in calls]
            starts.append(len(messages))
        elif plain["role"] == "tool":
            plain["tool_call_id"] = waiting.pop(0) if waiting else ""
            if plain["content"].startswith(_RAISED):
                plain["is_error"] = True
        messages.append(plain)
    ends = [*starts[1:], len(messages)]
    return Trace(
        trace_id=content_id(AGENT, messages),
        source=Source(agent=AGENT),
        messages=tuple(messages),
        turns=tuple(
            Turn(start=start, end=end, source_model="policy", family="policy")
            for start, end in zip(starts, ends, strict=True)
        ),
    )


def _plain(message: Mapping[str, Any]) -> Message:
    content = message.get("content") or ""
    return {"role": message["role"], "content": content if isinstance(content, str) else canonical_json(content)}


def _calls(message: Mapping[str, Any], turn: int) -> list[ToolCall]:
    calls: list[ToolCall] = []
    for number, call in enumerate(message.get("tool_calls") or ()):
        function = call["function"]
        arguments = function["arguments"]
        text = arguments if isinstance(arguments, str) else canonical_json(arguments)
        calls.append(
            {
                "id": f"call_{turn}_{number}",
                "type": "function",
                "function": {"name": function["name"], "arguments": text},
            }
        )
    return calls
