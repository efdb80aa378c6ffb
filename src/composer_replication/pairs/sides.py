"""Actions as the assistant messages of a pair, and both sides of a pair in one style.

    turn                                    side of a pair
    text and a call                         the call alone
    several calls                           the one that failed, else the first
    arguments as their writer spelt them    canonical spelling, in the order of the tool's schema
    text alone                              the text; blanks evened out where the other side is text too

A teacher's vote is one call without a word, in canonical spelling. Beside an actor's turn as it was written, whatever
else that has would be learnt as wrong: that it speaks, how it orders its keys, that it calls twice.
"""

from __future__ import annotations

import json
from collections.abc import Sequence, Set
from typing import NamedTuple, cast

from composer_replication.records import JsonObject, Message, ToolCall, canonical_tool_call

from .canonical import canonical_action, parse_action, schema_of

CALL_ID = "call00001"
"""On either side. Mistral's templates take nine letters and digits."""


class Sides(NamedTuple):
    chosen: Message
    rejected: Message


def is_well_formed(message: Message) -> bool:
    """An assistant message whose calls, if any, all parse, and that says something."""
    calls = message.get("tool_calls", [])
    if message["role"] != "assistant" or not (calls or message["content"].strip()):
        return False
    return all(parse_action(canonical_tool_call(call)) for call in calls)


def action_message(action: str) -> Message:
    """The assistant message that makes one canonical call, or says an agreed text."""
    call = parse_action(action)
    if call is None:
        said = cast("dict[str, str]", json.loads(action))
        return _saying(said["text"])
    return _calling(call.name, json.dumps(call.arguments, ensure_ascii=False))


def even_sides(
    chosen: Message, rejected: Message, tools: Sequence[JsonObject], failed_calls: Set[str] = frozenset()
) -> Sides:
    """Both in one style; see the table above. Arguments that do not parse stay as they were written."""
    sides = Sides(*(_action_alone(side, tools, failed_calls) for side in (chosen, rejected)))
    if any("tool_calls" in side for side in sides):
        return sides
    return Sides(*(_saying(" ".join(side["content"].split())) for side in sides))


def same_turn(one: Message, other: Message) -> bool:
    """Whether they say and call the same, in the same order of keys. Ids and blanks in JSON do not matter."""
    return one["content"] == other["content"] and _calls_of(one) == _calls_of(other)


def _calls_of(message: Message) -> list[tuple[str, str]]:
    return [
        (call["function"]["name"], _respaced(call["function"]["arguments"])) for call in message.get("tool_calls", [])
    ]


def _respaced(arguments: str) -> str:
    try:
        return json.dumps(json.loads(arguments))
    except (ValueError, RecursionError):
        return arguments


def _action_alone(message: Message, tools: Sequence[JsonObject], failed_calls: Set[str]) -> Message:
    calls = message.get("tool_calls")
    if not calls:
        return _saying(message["content"])
    call = next((call for call in calls if call["id"] in failed_calls), calls[0])
    return _calling(call["function"]["name"], _spelt(call, tools))


def _spelt(call: ToolCall, tools: Sequence[JsonObject]) -> str:
    """The arguments; types are not mended, because a wrong one may be what the pair is about."""
    parsed = parse_action(canonical_action(canonical_tool_call(call), tools))
    if parsed is None:
        return call["function"]["arguments"]
    order: JsonObject = schema_of(parsed.name, tools).get("properties") or {}
    ordered = {key: parsed.arguments[key] for key in order if key in parsed.arguments} | parsed.arguments
    return json.dumps(ordered, ensure_ascii=False, separators=(",", ":"))


def _saying(text: str) -> Message:
    return {"role": "assistant", "content": text}


def _calling(name: str, arguments: str) -> Message:
    call: ToolCall = {"id": CALL_ID, "type": "function", "function": {"name": name, "arguments": arguments}}
    return {"role": "assistant", "content": "", "tool_calls": [call]}
