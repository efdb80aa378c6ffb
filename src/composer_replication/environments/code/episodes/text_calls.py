"""Tool calls in plain text: JSON objects between marks, the way Hermes and Qwen models write them."""

from __future__ import annotations

import json
import re
from typing import Any, cast

from composer_replication.records import JsonObject, Message, canonical_json

from ...calls import CLOSE, OPEN
from ...untrusted import read_json
from .tools import ToolError
from .turns import Reply, WireCall

_CALL = re.compile(rf"{OPEN}\s*(.*?)\s*(?:{CLOSE}|(?={OPEN})|\Z)", re.DOTALL)


def read_calls(text: str) -> Reply:
    """The calls of a turn, in order, and what was said around them. A missing mark is forgiven: a sampler may stop
    at it. What stands after the last call changes nothing."""
    found = list(_CALL.finditer(text))
    if not found:
        raise ToolError(f"Your response did not call a tool: write {OPEN} and a JSON object.")
    said = (part.strip() for part in _CALL.split(text)[::2])
    return Reply("\n".join(filter(None, said)), [_call(each.group(1)) for each in found])


def as_text(message: Message) -> str:
    """A turn of a trace as a policy that acts on text would have written it."""
    calls = [
        f'{OPEN}\n{{"name":{json.dumps(call["function"]["name"])},"arguments":{call["function"]["arguments"]}}}\n{CLOSE}'
        for call in message.get("tool_calls", ())
    ]
    return "\n".join(filter(None, [message["content"] or "", *calls]))


def _call(text: str) -> WireCall:
    try:
        call: Any = read_json(text)
    except ValueError as error:
        raise ToolError(f"Your response could not be parsed: the call is {error}.") from error
    if not isinstance(call, dict):
        raise ToolError("Your response could not be parsed: the call is no JSON object.")
    fields = cast(JsonObject, call)
    name, arguments = fields.get("name"), fields.get("arguments", {})
    if not isinstance(name, str) or not isinstance(arguments, dict):
        raise ToolError('Your response could not be parsed: a call has a "name" and "arguments".')
    return WireCall(name, canonical_json(arguments))
