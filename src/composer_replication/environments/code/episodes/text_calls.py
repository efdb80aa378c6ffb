"""Tool calls in plain text: one JSON object between marks, the way Hermes and Qwen models write them."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple, cast

from composer_replication.records import JsonObject, canonical_json

from .tools import ToolError, is_encodable

OPEN, CLOSE = "<tool_call>", "</tool_call>"
_CALL = re.compile(rf"{OPEN}\s*(.*?)\s*(?:{CLOSE}|\Z)", re.DOTALL)


class TextCall(NamedTuple):
    said: str
    """What stands before the call."""
    name: str
    arguments: JsonObject


def read_call(text: str) -> TextCall:
    """The one call of a turn. A missing last mark is forgiven: a sampler may stop at it."""
    found = list(_CALL.finditer(text))
    if not found:
        raise ToolError(f"Your response did not call a tool: write {OPEN} and a JSON object.")
    if len(found) > 1:
        raise ToolError("Your response could not be parsed: one call per turn.")
    try:
        call: Any = json.loads(found[0].group(1))
    except (ValueError, RecursionError) as error:
        raise ToolError("Your response could not be parsed: the call is no JSON.") from error
    if not isinstance(call, dict):
        raise ToolError("Your response could not be parsed: the call is no JSON object.")
    fields = cast(JsonObject, call)
    name, arguments = fields.get("name"), fields.get("arguments", {})
    if not isinstance(name, str) or not isinstance(arguments, dict):
        raise ToolError('Your response could not be parsed: a call has a "name" and "arguments".')
    if not is_encodable(canonical_json(fields)):
        raise ToolError("Your response could not be parsed: the call holds half a surrogate pair.")
    return TextCall(text[: found[0].start()].strip(), name, cast(JsonObject, arguments))
