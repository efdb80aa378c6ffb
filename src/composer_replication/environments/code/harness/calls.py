"""What a harness sends and gets, between the wire's messages and the text that a policy reads and writes.

A call goes on from an earlier one where its messages begin with that call's messages and its reply, as the harness
says them again: then the ids of that call are kept as they are and only what is new is rendered behind them.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Any, cast

from composer_replication.records import JsonObject, Message, ToolCall, canonical_json, canonical_tool_call

from ...calls import OPEN, with_tools
from ...self_played import ModelCall, WrittenTurn
from ...untrusted import encodable
from ..episodes.tools import ToolError
from ..episodes.turns import Reply, as_text, read_calls

ROLES = ("system", "user", "assistant", "tool")


def plain_messages(messages: Iterable[JsonObject]) -> list[Message]:
    """Messages of the OpenAI wire with text alone; images and other parts are left out."""
    return [_plain(message) for message in messages]


def plain_tools(tools: Iterable[JsonObject]) -> list[JsonObject]:
    """As they are. Raises where one is no function with a name."""
    listed = list(tools)
    if not all(isinstance(tool["function"]["name"], str) for tool in listed):
        raise TypeError("a tool is a function with a name")
    return listed


def _plain(message: JsonObject) -> Message:
    role = message.get("role")
    plain: Message = {"role": role if role in ROLES else "user", "content": encodable(_text(message.get("content")))}
    if calls := message.get("tool_calls"):
        plain["tool_calls"] = [_call(call) for call in calls]
    if call_id := message.get("tool_call_id"):
        plain["tool_call_id"] = str(call_id)
    return plain


def _text(content: Any) -> str:
    if isinstance(content, list):
        parts = [part if isinstance(part, str) else part.get("text", "") for part in cast("list[Any]", content)]
        return "\n".join(filter(None, parts))
    return str(content or "")


def _call(call: JsonObject) -> ToolCall:
    function = call.get("function") or {}
    name, arguments = str(function.get("name", "")), function.get("arguments") or "{}"
    text = arguments if isinstance(arguments, str) else canonical_json(arguments)
    return {"id": str(call.get("id", "")), "type": "function", "function": {"name": name, "arguments": encodable(text)}}


def reply_message(text: str, name: str) -> Message:
    """A turn as the harness gets it. Calls that cannot be read stay text: the harness complains in its own words."""
    try:
        reply = read_calls(text) if OPEN in text else Reply(text)
    except ToolError:
        reply = Reply(text)
    message: Message = {"role": "assistant", "content": encodable(reply.text)}
    if reply.calls:
        message["tool_calls"] = [
            _call({"id": f"call_{name}_{number}", "function": call._asdict()})
            for number, call in enumerate(reply.calls)
        ]
    return message


def said(message: Message) -> str:
    """One spelling for a message, however a harness says it again: ids of calls, spaces and key order do not count."""
    calls = [canonical_tool_call(call) for call in message.get("tool_calls", ())]
    return canonical_json([message["role"], message["content"].strip(), calls])


class Conversations:
    """The calls of one harness, by what they said. For many threads."""

    def __init__(self) -> None:
        self._ids: dict[str, list[int]] = {}
        self._lock = threading.Lock()

    def call(self, messages: Sequence[Message], tools: Sequence[JsonObject], max_tokens: int | None) -> ModelCall:
        shown = [Message(role=message["role"], content=as_text(message)) for message in messages]
        whole = ModelCall(with_tools(shown, tools), tools, max_tokens=max_tokens)
        with self._lock:
            names = list(_names(messages, tools))
            for length in range(len(messages) - 1, 0, -1):
                if behind := self._ids.get(names[length - 1]):
                    return whole._replace(behind=behind, new=shown[length:])
        return whole

    def keep(self, messages: Sequence[Message], tools: Sequence[JsonObject], reply: Message, turn: WrittenTurn) -> None:
        with self._lock:
            *_, name = _names([*messages, reply], tools)
            self._ids[name] = [*turn.prompt_ids, *turn.ids]


def _names(messages: Sequence[Message], tools: Sequence[JsonObject]) -> Iterable[str]:
    """Of the conversation up to each message."""
    digest = sha256(canonical_json(list(tools)).encode())
    for message in messages:
        digest.update(said(message).encode())
        yield digest.hexdigest()
