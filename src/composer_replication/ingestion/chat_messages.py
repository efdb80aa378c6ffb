"""OpenAI chat messages taken apart: text, reasoning, calls; and tool definitions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

from composer_replication.records import JsonObject

from .dialogue import ModelReply, ParsedCall, arguments_of
from .documents import maybe_json
from .tables import without_nulls
from .values import as_list, as_name, as_object, as_objects, as_text, label, placeholder
from .written_calls import cut_calls, cut_thinking

THINKING_FIELDS = ("reasoning_content", "reasoning", "thinking")
THINKING_PARTS = frozenset({"thinking", "reasoning"})
MAX_SCHEMA_DEPTH = 60


def take_apart(message: JsonObject, cut: Callable[[str], tuple[str, Sequence[ParsedCall]]] = cut_calls) -> ModelReply:
    """Calls in fields count; only where there is none are calls looked for in the text, by `cut`."""
    content = message.get("content")
    inline, text = cut_thinking(text_of(content))
    thinking = next((value for name in THINKING_FIELDS if (value := text_of(message.get(name))).strip()), "")
    blocks = [*as_list(content), *as_list(message.get("thinking_blocks"))]
    thinking = thinking or "\n\n".join(filter(None, map(_thinking_text, as_objects(blocks))))
    if inline.strip() not in thinking:
        # Some servers give the same reasoning in both places.
        thinking = "\n\n".join(filter(None, [thinking, inline]))
    if calls := list(_calls(message)):
        return ModelReply(text, thinking, calls)
    text, found = cut(text)
    return ModelReply(text, thinking, found)


def text_of(content: Any) -> str:
    """The text of a message. Images and the like leave a placeholder; reasoning is not part of the text."""
    if isinstance(content, str):
        return content
    if isinstance(content, dict):
        return as_text(cast(JsonObject, content).get("text"))
    return "\n".join(text for part in as_list(content) if (text := _part_text(part)) is not None)


def roles_and_texts(messages: Sequence[JsonObject]) -> list[list[str]]:
    """What tells a conversation without an id from others."""
    return [[label(message.get("role")), text_of(message.get("content"))] for message in messages]


def openai_tools(value: Any) -> list[JsonObject]:
    """Tool definitions in OpenAI's form, also where they are a JSON string or lack the outer object."""
    found = [as_object(tool.get("function")) or tool for tool in as_objects(maybe_json(value))]
    named = [tool for tool in found if as_name(tool.get("name")) and ("parameters" in tool or len(tool) < 4)]
    return [
        {"type": "function", "function": without_nulls(tool)} for tool in named if _is_shallow(tool, MAX_SCHEMA_DEPTH)
    ]


def _calls(message: JsonObject) -> Iterator[ParsedCall]:
    """A call with an id counts even without a name: models make such calls, and get an answer to them."""
    for call in as_objects(message.get("tool_calls")):
        function, call_id = as_object(call.get("function")) or call, as_name(call.get("id"))
        if (name := as_text(function.get("name"))) or call_id:
            yield ParsedCall(call_id, name, _arguments(function.get("arguments")))
    legacy = as_object(message.get("function_call"))
    if (name := as_name(legacy.get("name"))) and not message.get("tool_calls"):
        yield ParsedCall(None, name, _arguments(legacy.get("arguments")))


def _arguments(value: Any) -> str | JsonObject:
    """Tables pad the objects of a column with nulls, so a null argument is one that was not given."""
    arguments = arguments_of(value)
    if isinstance(arguments, str):
        return arguments
    return {key: item for key, item in arguments.items() if item is not None}


def _part_text(part: Any) -> str | None:
    if not isinstance(part, dict):
        return part if isinstance(part, str) else None
    fields = cast(JsonObject, part)
    kind = as_name(fields.get("type"))
    if kind in THINKING_PARTS:
        return None
    text = fields.get("text", fields.get("refusal"))
    return text if isinstance(text, str) else placeholder(kind, fields)


def _thinking_text(part: JsonObject) -> str:
    if as_name(part.get("type")) not in THINKING_PARTS:
        return ""
    return as_text(part.get("thinking")) or as_text(part.get("reasoning")) or as_text(part.get("text"))


def _is_shallow(value: Any, depth: int) -> bool:
    if depth == 0:
        return False
    items = cast(JsonObject, value).values() if isinstance(value, dict) else as_list(value)
    return all(_is_shallow(item, depth - 1) for item in items)
