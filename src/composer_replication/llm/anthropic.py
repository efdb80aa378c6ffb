"""Anthropic's Messages API: a legal OpenAI-style request as its own, and its answers in the OpenAI form.

Answers stay on disk as they came; whoever reads one asks `chat_completion` first.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from composer_replication.records import JsonObject

_MARK = {"cache_control": {"type": "ephemeral"}}
_FINISH = {
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refusal",
    "tool_use": "tool_calls",
}


def messages_request(request: JsonObject, cache_marks: bool) -> JsonObject:
    """`cache_marks`: tools with the system prompt, and all of the history, are to be kept for the next request."""
    known = ("model", "messages", "tools", "max_tokens", "reasoning_effort")
    found = {key: value for key, value in request.items() if key not in known}
    system = [{"type": "text", "text": one["content"]} for one in request["messages"] if one["role"] == "system"]
    messages = _messages([one for one in request["messages"] if one["role"] != "system"])
    tools = [_tool(tool["function"]) for tool in request.get("tools", [])]
    if cache_marks:
        for blocks in (system or tools, messages[-1]["content"]):
            if blocks:
                blocks[-1] = {**blocks[-1], **_MARK}
    found |= {"model": request["model"], "max_tokens": request["max_tokens"], "messages": messages}
    if "reasoning_effort" in request:
        found["output_config"] = {"effort": request["reasoning_effort"], **request.get("output_config", {})}
    return found | ({"system": system} if system else {}) | ({"tools": tools} if tools else {})


def chat_completion(answer: Mapping[str, Any]) -> dict[str, Any]:
    """The answer in the OpenAI form; one that has it already as it is."""
    if answer.get("type") == "error":
        return {**answer, "error": answer.get("error") or {"message": "error"}}
    if answer.get("type") != "message":
        return dict(answer)
    blocks = [cast(JsonObject, block) for block in answer.get("content") or [] if isinstance(block, dict)]
    calls = [
        {
            "id": block.get("id"),
            "type": "function",
            "function": {"name": block.get("name"), "arguments": json.dumps(block.get("input"), ensure_ascii=False)},
        }
        for block in blocks
        if block.get("type") == "tool_use"
    ]
    text = "".join(block["text"] for block in blocks if isinstance(block.get("text"), str))
    message = {"role": "assistant", "content": text or None} | ({"tool_calls": calls} if calls else {})
    reason = answer.get("stop_reason")
    finish = _FINISH.get(reason, "stop") if isinstance(reason, str) else None
    return {
        "id": answer.get("id"),
        "model": answer.get("model"),
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": _usage(answer.get("usage")),
    }


def _usage(told: Any) -> JsonObject:
    """`input_tokens` leaves out what was read from the cache or written to it; the OpenAI form counts all."""
    fields = cast(JsonObject, told) if isinstance(told, dict) else {}
    fresh, written, read, answer = (
        value if isinstance(value := fields.get(name), int) else 0
        for name in ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")
    )
    return {
        "prompt_tokens": fresh + written + read,
        "completion_tokens": answer,
        "prompt_tokens_details": {"cached_tokens": read, "cache_write_tokens": written},
    }


def _messages(messages: list[JsonObject]) -> list[JsonObject]:
    """Tool results are the user's, so that neighbours of one role become one message with several blocks."""
    found: list[JsonObject] = []
    for message in messages:
        role = "assistant" if message["role"] == "assistant" else "user"
        if not found or found[-1]["role"] != role:
            found.append({"role": role, "content": []})
        found[-1]["content"] += _blocks(message)
    return found


def _blocks(message: JsonObject) -> list[JsonObject]:
    if message["role"] == "tool":
        return [{"type": "tool_result", "tool_use_id": message["tool_call_id"], "content": message["content"]}]
    text: str = message["content"]
    calls: list[JsonObject] = message.get("tool_calls") or []
    return [
        *([{"type": "text", "text": text}] if text.strip() else []),
        *(
            {
                "type": "tool_use",
                "id": call["id"],
                "name": call["function"]["name"],
                "input": json.loads(call["function"]["arguments"]),
            }
            for call in calls
        ),
    ]


def _tool(function: JsonObject) -> JsonObject:
    described = {"description": function["description"]} if function.get("description") else {}
    return {"name": function["name"], **described, "input_schema": function["parameters"]}
