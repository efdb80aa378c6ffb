"""Rollouts of TRL's own tool loop as traces, so that the detectors and hints of the pipeline apply to them.

A call that TRL cannot parse is text to it and ends the rollout there, so that turn is no error turn.
"""

from __future__ import annotations

from ast import literal_eval as read_literal
from collections.abc import Mapping, Sequence
from typing import Any

from transformers.utils.chat_template_utils import get_json_schema

from composer_replication.records import Message, Source, ToolCall, Trace, canonical_json, content_id, turns_of

AGENT = "environment"


def trace_of_messages(
    prompt: Sequence[Mapping[str, Any]],
    completion: Sequence[Mapping[str, Any]],
    tools: Sequence[Any] = (),
    reward: float | None = None,
) -> Trace:
    """Each assistant message of the completion is a turn. `tools` are functions or schemas, as TRL takes them."""
    messages: list[Message] = [_plain(message) for message in prompt]
    spoken = 0
    waiting: list[ToolCall] = []
    for message in completion:
        plain = _plain(message)
        if plain["role"] == "assistant":
            waiting = _calls(message, spoken)
            if waiting:
                plain["tool_calls"] = list(waiting)
            spoken += 1
        elif plain["role"] == "tool":
            plain["tool_call_id"] = _take_call(waiting, message.get("name"))
            raised = _raised(plain["content"])
            if raised is not None:
                plain["content"], plain["is_error"] = raised, True
        messages.append(plain)
    return Trace(
        trace_id=content_id(AGENT, messages),
        source=Source(agent=AGENT),
        messages=tuple(messages),
        turns=turns_of(messages, len(prompt), "policy"),
        tools=tuple((get_json_schema(tool) if callable(tool) else tool) for tool in tools),
        outcome=reward,
    )


def _plain(message: Mapping[str, Any]) -> Message:
    content = message.get("content") or ""
    return {"role": message["role"], "content": content if isinstance(content, str) else canonical_json(content)}


def _calls(message: Mapping[str, Any], turn: int) -> list[ToolCall]:
    made: Sequence[Any] = message.get("tool_calls") or ()
    calls: list[ToolCall] = []
    for number, call in enumerate(made):
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


def _take_call(waiting: list[ToolCall], name: str | None) -> str:
    """The first call by that name without a result: results of asynchronous tools come after all others."""
    named = [place for place, call in enumerate(waiting) if call["function"]["name"] == name]
    return waiting.pop(named[0] if named else 0)["id"] if waiting else ""


def _raised(content: str) -> str | None:
    """The words of an exception, which TRL hands to the policy as the text of a dictionary."""
    if not content.startswith("{'error': "):
        return None
    try:
        found = read_literal(content)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return content
    return str(found["error"]) if isinstance(found, dict) else content
