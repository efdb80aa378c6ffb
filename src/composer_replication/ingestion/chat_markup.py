"""Tool calls, their results and reasoning that a chat message holds only as text.

Two spellings are common where the model had no native tool calls: OpenHands' `<function=…>` tags, answered by a user
message "EXECUTION RESULT of [name]:", and the `<tool_call>` tags of Hermes and Qwen, answered by `<tool_response>`.
"""

from __future__ import annotations

import re

from .messages import WrittenCall, function_tags
from .reading import parse_json
from .values import as_name, as_object

THINKING = re.compile(r"\s*<think(?:ing)?>(.*?)</think(?:ing)?>\s*", re.DOTALL)
EXECUTION_RESULT = "EXECUTION RESULT of ["
OBSERVATION = "OBSERVATION:\n"


def cut_thinking(text: str) -> tuple[str, str]:
    """The reasoning at the beginning of a reply, and the rest."""
    found = THINKING.match(text)
    return (found.group(1), text[found.end() :]) if found else ("", text)


def cut_calls(text: str) -> tuple[str, list[WrittenCall]]:
    """The text without its calls, and the calls. What cannot be parsed stays text."""
    return _json_calls(text) if "<tool_call>" in text else function_tags(text)


def results_in(text: str) -> list[str]:
    """The results that a message carries for calls that were text."""
    start = text.lstrip()
    if start.startswith(EXECUTION_RESULT):
        return [start.partition("]:")[2].removeprefix("\n")]
    if start.startswith(OBSERVATION):
        return [start.removeprefix(OBSERVATION)]
    if start.startswith("<tool_response>"):
        return [piece.partition("</tool_response>")[0].strip("\n") for piece in start.split("<tool_response>")[1:]]
    return []


def _json_calls(text: str) -> tuple[str, list[WrittenCall]]:
    first, *pieces = text.split("<tool_call>")
    kept, calls = [first], list[WrittenCall]()
    for piece in pieces:
        body, closed, rest = piece.partition("</tool_call>")
        call = _json_call(body) if closed else None
        if call is None:
            kept.append("<tool_call>" + piece)
        else:
            calls.append(call)
            kept.append(rest)
    return "".join(kept).strip() if calls else text, calls


def _json_call(body: str) -> WrittenCall | None:
    try:
        call = as_object(parse_json(body.strip().encode("utf-8", "replace")))
    except ValueError:
        return None
    name, arguments = as_name(call.get("name")), call.get("arguments", {})
    return WrittenCall(name, as_object(arguments)) if name and isinstance(arguments, dict) else None
