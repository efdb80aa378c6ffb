"""A tool call that a policy writes as one JSON object: how it is read, and how it is written.

The object may stand between marks, the way Hermes and Qwen models write it. A thought before it is no part of a turn.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from composer_replication.records import ErrorKind, JsonObject, Message, canonical_json

OPEN, CLOSE = "<tool_call>", "</tool_call>"
THOUGHT_MARKS = (
    ("<think>", "</think>"),
    ("[THINK]", "[/THINK]"),
    ("<|channel>thought\n", "<channel|>"),
    ("<seed:think>", "</seed:think>"),
)
"""Of Qwen, DeepSeek, GLM, Kimi, SmolLM3 and others; Mistral; Gemma 4; Seed. A thought stands at the start of a turn."""
CALL_FORMAT = """Call tools as JSON objects between two marks, one after the other:
<tool_call>
{"name": "TOOL", "arguments": {"NAME": "VALUE"}}
</tool_call>
The tools:
"""
MAX_BRACKETS = 64
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class Call:
    """`name` and `arguments` of a tool call."""

    name: str
    arguments: dict[str, Any]

    @property
    def key(self) -> str:
        return canonical_json({"name": self.name, "arguments": self.arguments})

    def render(self) -> str:
        """The text a policy writes for this call. What has no bytes of its own, a lone surrogate, is escaped."""
        shown = {"name": self.name, "arguments": self.arguments}
        text = json.dumps(shown, separators=(",", ":"), ensure_ascii=False)
        return json.dumps(shown, separators=(",", ":")) if _SURROGATE.search(text) else text


class CallError(Exception):
    def __init__(self, kind: ErrorKind, message: str) -> None:
        super().__init__(message)
        self.kind: ErrorKind = kind


def without_thought(text: str, is_open: bool = False) -> str:
    """`is_open`: the turn begins inside a thought. Nothing is left of a turn that was cut off inside its thought."""
    for opening, closing in THOUGHT_MARKS:
        if text.lstrip().startswith(opening) or (is_open and closing in text):
            return text.partition(closing)[2].lstrip("\n")
    return "" if is_open else text


def marked(call: Call) -> str:
    return f"{OPEN}\n{call.render()}\n{CLOSE}"


def parse_call(text: str) -> Call:
    """The one call that a turn consists of."""
    if text.startswith(OPEN) and text.endswith(CLOSE):
        text = text[len(OPEN) : -len(CLOSE)]
    try:
        if text.count("{") + text.count("[") > MAX_BRACKETS:
            raise ValueError("too deep")
        value: object = json.loads(text)
        canonical_json(value).encode()  # a lone surrogate parses, but no file could hold it
    except ValueError as error:
        raise CallError("json_decode", "the turn is not valid json") from error
    fields = cast("dict[str, object]", value) if isinstance(value, dict) else {}
    name, arguments = fields.get("name"), fields.get("arguments")
    if set(fields) != {"name", "arguments"} or not isinstance(name, str) or not isinstance(arguments, dict):
        raise CallError("json_decode", "the turn is not one call with name and arguments")
    return Call(name, cast("dict[str, Any]", arguments))


def with_tools(messages: Sequence[Message], tools: Sequence[JsonObject]) -> list[Message]:
    """The opening for models without a tool format of their own: the system message lists the tools."""
    if not tools:
        return list(messages)
    listed = CALL_FORMAT + "\n".join(canonical_json(schema["function"]) for schema in tools)
    if messages and messages[0]["role"] == "system":
        return [{"role": "system", "content": f"{messages[0]['content']}\n\n{listed}"}, *messages[1:]]
    return [{"role": "system", "content": listed}, *messages]
