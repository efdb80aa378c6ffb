"""Calls, their results and reasoning that a message holds only as text.

Two spellings are common where the model had no native tool calls: OpenHands' `<function=…>` tags, answered by a user
message "EXECUTION RESULT of [name]:", and the `<tool_call>` tags of Hermes and Qwen, answered by `<tool_response>`.
Agents with one tool, the shell, use a code block.
"""

from __future__ import annotations

import re

from composer_replication.records import JsonObject

from .dialogue import ParsedCall
from .reading import parse_json
from .values import as_name, as_object

THINKING = re.compile(r"\s*<think(?:ing)?>(.*?)</think(?:ing)?>\s*", re.DOTALL)
FUNCTION = re.compile(r"<function=([^>\n]+)>")
PARAMETER = re.compile(r"<parameter=([^>\n]+)>")
FENCE = re.compile(r"^```(\S*)[ \t]*$", re.MULTILINE)
EXECUTION_RESULT = "EXECUTION RESULT of ["
OBSERVATION = "OBSERVATION:\n"


def cut_thinking(text: str) -> tuple[str, str]:
    """The reasoning at the beginning of a reply, and the rest."""
    found = THINKING.match(text)
    return (found.group(1), text[found.end() :]) if found else ("", text)


def cut_calls(text: str) -> tuple[str, list[ParsedCall]]:
    """The text without its calls, and the calls. What cannot be parsed stays text."""
    return _json_calls(text) if "<tool_call>" in text else _function_tags(text)


def cut_command(text: str) -> tuple[str, list[ParsedCall]]:
    """The text without its last code block, and a call of `bash` with what the block held."""
    rest, command = last_block(text) or (text, "")
    return rest, [bash(command)] if command else []


def bash(command: str) -> ParsedCall:
    return ParsedCall(None, "bash", {"command": command})


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


def last_block(text: str) -> tuple[str, str] | None:
    """The last code block outside other blocks, as the text without it and its content."""
    depth: list[re.Match[str]] = []
    last: tuple[int, int, int, int] | None = None
    for fence in FENCE.finditer(text):
        if fence.group(1) or not depth:
            depth.append(fence)
            continue
        opening = depth.pop()
        if not depth:
            last = (opening.start(), opening.end(), fence.start(), fence.end())
    if last is None:
        return None
    return (text[: last[0]] + text[last[3] :]).strip(), text[last[1] : last[2]].strip("\n")


def _function_tags(text: str) -> tuple[str, list[ParsedCall]]:
    """Calls written as `<function=name><parameter=key>value</parameter></function>`.

    A call ends at the first closing tag outside a parameter, because file contents may hold such tags too.
    """
    kept, calls, at = list[str](), list[ParsedCall](), 0
    while (opening := FUNCTION.search(text, at)) and (end := _end_of_call(text, opening.end())) is not None:
        kept.append(text[at : opening.start()])
        calls.append(ParsedCall(None, opening.group(1).strip(), _parameters(text[opening.end() : end])))
        at = end + len("</function>")
    return "".join([*kept, text[at:]]).strip() if calls else text, calls


def _end_of_call(text: str, start: int) -> int | None:
    opened, at = 0, start
    while (end := text.find("</function>", at)) >= 0:
        opened += text.count("<parameter=", at, end) - text.count("</parameter>", at, end)
        if opened <= 0:
            return end
        at = end + 1
    return None


def _parameters(body: str) -> JsonObject:
    _, *pieces = PARAMETER.split(body)
    values = (piece.rpartition("</parameter>")[0] for piece in pieces[1::2])
    return {
        key.strip(): value.removeprefix("\n").removesuffix("\n") for key, value in zip(pieces[::2], values, strict=True)
    }


def _json_calls(text: str) -> tuple[str, list[ParsedCall]]:
    first, *pieces = text.split("<tool_call>")
    kept, calls = [first], list[ParsedCall]()
    for piece in pieces:
        body, closed, rest = piece.partition("</tool_call>")
        call = _json_call(body) if closed else None
        if call is None:
            kept.append("<tool_call>" + piece)
        else:
            calls.append(call)
            kept.append(rest)
    return "".join(kept).strip() if calls else text, calls


def _json_call(body: str) -> ParsedCall | None:
    try:
        call = as_object(parse_json(body.strip().encode("utf-8", "replace")))
    except ValueError:
        return None
    name, arguments = as_name(call.get("name")), call.get("arguments", {})
    return ParsedCall(None, name, as_object(arguments)) if name and isinstance(arguments, dict) else None
