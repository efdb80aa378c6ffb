"""Pieces that several answers share: messages, turns, sides, replies and links."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, cast

from composer_replication.records import JsonObject, Message, Turn, json_object

from ..lookup import CachedRecord, RunView, state_of

MAX_MESSAGE_CHARS = 20_000
"""Of one message in a window; `message` gives all of it."""
MAX_DEPTH = 40
MAX_ATTACHED = 100
"""Sites and pairs that are named beside a turn shown alone."""


def ref(kind: str, record_id: str, label: str = "") -> JsonObject:
    return {"kind": kind, "id": record_id, "label": label}


def refs(found: Sequence[CachedRecord], label: str) -> list[JsonObject]:
    return [ref(each.kind, each.id, str(each.facts.get(label) or "")) for each in found]


def shown_message(message: Message, number: int, limit: int | None = MAX_MESSAGE_CHARS) -> JsonObject:
    content = message["content"]
    cut = max(0, len(content) - limit) if limit else 0
    shown: JsonObject = {"n": number, "role": message["role"], "content": content[:limit] if cut else content}
    if message.get("tool_calls"):
        shown["tool_calls"] = calls_of(message)
    shown |= {name: value for name, value in message.items() if name in ("tool_call_id", "is_error")}
    return {**shown, "cut": cut}


def calls_of(message: Mapping[str, Any]) -> list[JsonObject]:
    return [
        {
            "id": call.get("id"),
            "name": call["function"]["name"],
            "arguments": call["function"]["arguments"],
            "parsed": shallow(json_object(call["function"]["arguments"])),
        }
        for call in message.get("tool_calls") or ()
    ]


def shallow(value: JsonObject | None) -> JsonObject | None:
    """None for what is nested so deeply that no reader would unfold it; its text is there all the same."""
    layer: list[Any] = [value]
    for _ in range(MAX_DEPTH):
        layer = [inner for each in layer for inner in _inside(each)]
        if not layer:
            return value
    return None


def _inside(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(cast("JsonObject", value).values())
    return cast("list[Any]", value) if isinstance(value, list) else []


def shown_turn(view: RunView, trace_id: str, number: int, limit: int | None = MAX_MESSAGE_CHARS) -> JsonObject:
    (turn,) = view.cache.part(trace_id, "t", number, number + 1)
    messages = view.cache.part(trace_id, "m", turn["start"], turn["end"])
    where = "trace_id = ? AND kind IN ('site', 'pair') AND turn = ? LIMIT ?"
    attached = view.all(where, trace_id, number, MAX_ATTACHED)
    return assembled(trace_id, number, turn, messages, attached, limit)


def assembled(
    trace_id: str,
    number: int,
    turn: JsonObject,
    messages: Sequence[Message],
    attached: Sequence[CachedRecord],
    limit: int | None = MAX_MESSAGE_CHARS,
) -> JsonObject:
    """A turn as the page gets it."""
    return {
        "turn": number,
        "state_id": state_of(trace_id, number),
        **Turn(**turn).model_dump(mode="json"),
        "messages": [shown_message(each, turn["start"] + place, limit) for place, each in enumerate(messages)],
        "sites": refs([each for each in attached if each.kind == "site"], "error_kind"),
        "pairs": refs([each for each in attached if each.kind == "pair"], "error_kind"),
    }


def trace_card(view: RunView, trace_id: str) -> JsonObject:
    trace = view.get("trace", trace_id)
    return {
        "trace_id": trace_id,
        "n_turns": trace.facts["turns"],
        "source": trace.body["source"],
        "task_id": trace.body["task_id"],
    }


def side(message: Mapping[str, Any]) -> JsonObject:
    return {"text": message["content"], "calls": calls_of(message)}


def shown_reply(reply: JsonObject, voters: Sequence[str]) -> JsonObject:
    action = shallow(json_object(reply["action"] or ""))
    return {
        "name": reply["teacher"],
        **{name: reply[name] for name in ("key", "teacher", "served_model", "family", "finish_reason")},
        "action": action,
        "text": _said(reply["raw"]),
        "prompt_tokens": reply["usage"]["prompt_tokens"],
        "completion_tokens": reply["usage"]["completion_tokens"],
        **{name: reply[name] for name in ("cost_micros", "latency_s", "outcome", "simulated")},
        "voted_for_chosen": reply["key"] in voters,
    }


TOLD_AFTER_A_VOTE = (
    "teacher", "served_model", "family", "key", "cost_micros", "latency_s", "voted_for_chosen", "prompt_tokens",
)  # fmt: skip


def blinded(replies: Sequence[JsonObject], site_id: str) -> list[JsonObject]:
    """Without names, in an order that the site's id draws, so that a place says nothing about who stands there."""
    mixed = sorted(replies, key=lambda reply: hashlib.sha256(f"{site_id}/{reply['key']}".encode()).digest())
    hidden = dict.fromkeys(TOLD_AFTER_A_VOTE)
    return [{**reply, **hidden, "name": letters(place)} for place, reply in enumerate(mixed)]


def by_letter(replies: Sequence[JsonObject], site_id: str) -> dict[str, str]:
    """Keys by the names that `blinded` gives."""
    mixed = sorted(replies, key=lambda reply: hashlib.sha256(f"{site_id}/{reply['key']}".encode()).digest())
    return {letters(place): reply["key"] for place, reply in enumerate(mixed)}


def letters(place: int) -> str:
    return chr(65 + place % 26) * (1 + place // 26)


def replies_at(view: RunView, state_id: str) -> list[JsonObject]:
    return [found.body for found in view.all("state_id = ? AND kind = 'reply' ORDER BY number", state_id)]


def _said(raw: str) -> str:
    """The words of an answer, of either dialect; the whole body where it is in neither."""
    body = json_object(raw)
    if body is None:
        return raw[:MAX_MESSAGE_CHARS]
    choices = cast("list[Any]", body.get("choices") or [])
    if choices and isinstance(choices[0], dict):
        message = cast("JsonObject", choices[0]).get("message")
        return str(cast("JsonObject", message).get("content") or "") if isinstance(message, dict) else ""
    blocks = body.get("content")
    if isinstance(blocks, list):
        texts = [
            cast("JsonObject", block).get("text") for block in cast("list[Any]", blocks) if isinstance(block, dict)
        ]
        return "\n".join(str(text) for text in texts if text)
    return raw[:MAX_MESSAGE_CHARS]
