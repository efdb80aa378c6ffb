"""One chat question: who may be asked, what comes back, and what it cost. Nothing is sent from here."""

from __future__ import annotations

import json
from typing import Any, NamedTuple, Protocol, cast

from composer_replication.records import JsonObject

from .pricing import told_micros, usage_of


class ChatReply(NamedTuple):
    """A model's answer and what it cost."""

    text: str
    cost_micros: int = 0
    """Micro-dollars."""
    prompt_tokens: int = 0
    """As the server counted them."""
    completion_tokens: int = 0
    """Likewise."""


class ChatFailure(Exception):
    """No usable reply. `cost_micros` is what it cost all the same."""

    def __init__(self, reason: str, cost_micros: int = 0) -> None:
        super().__init__(reason)
        self.cost_micros = cost_micros


class ChatClient(Protocol):
    """Sends one OpenAI-style request. `key` names the question without its random fence: pay for it once."""

    def __call__(self, request: JsonObject, key: str) -> ChatReply: ...


def json_request(
    model: str, system: str, asked: str, *, answer: str, schema: JsonObject, max_tokens: int
) -> JsonObject:
    """A request whose answer, called `answer`, is to be a JSON object of the schema."""
    return {
        "model": model,
        "messages": [{"role": "system", "content": system}, {"role": "user", "content": asked}],
        "temperature": 0,
        "max_tokens": max_tokens,
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": answer, "strict": True, "schema": schema},
        },
    }


def read_reply(body: str, requested_model: str) -> ChatReply:
    """The text of a chat completion. One that is cut, or from another model, fails but has its cost."""
    cost = cost_micros(body)
    try:
        answer = cast("dict[str, Any]", json.loads(body))
        choice = answer["choices"][0]
        text, served, finish = choice["message"]["content"], answer.get("model"), choice.get("finish_reason")
        usage = usage_of(answer.get("usage") or {})
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise ChatFailure("unreadable reply", cost) from error
    if not isinstance(text, str):
        raise ChatFailure("unreadable reply", cost)
    if served not in (None, requested_model):
        raise ChatFailure("served by another model", cost)
    if finish == "length":
        raise ChatFailure("cut off", cost)
    return ChatReply(text, cost, usage.prompt_tokens, usage.completion_tokens)


def cost_micros(body: str) -> int:
    """The provider's own figure; none, or one that makes no sense, counts as nothing."""
    try:
        return told_micros(json.loads(body)["usage"]) or 0
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return 0
