"""How much a hint gives away: L0 the error only, L1 facts that the context holds, L2 the answer.

Two checks stand between a hint and training. It must not repeat the failed call, or the policy learns to copy it. And
it must not contain the right one, or the answer is taught instead of the behaviour. The right call is taken to be the
actor's next success with the same tool; a value of it that the actor had before its eyes is a fact, any other is the
answer. Where the trace holds no such success nothing is known about the answer, and only the first check bites.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, cast

from composer_replication.records import ErrorSite, ToolCall, Trace, arguments_written, canonical_json

from .templates import LeakLevel
from .wording import PIECE

# A value this short, a file name or a number, may be needed to say what is wrong.
MIN_QUOTED_CHARS = 12
QUOTED_CHARS = 40
# Plain words shorter than this are too common to count as an answer; with a digit or a mark in them three are enough.
MIN_WORD_CHARS = 8
MIN_MARKED_CHARS = 3
# A longer value is found by any stretch of this many pieces.
STRETCH = 6
MIN_STRETCH_WORDS = 3
# Errors that are about the tool's name or about no call at all: any later success may be the answer.
UNTIED_KINDS = frozenset({"tool_not_found", "json_decode", "no_action", "repeated_failure"})

_PATH = re.compile(rf"[\w.~-]*(?:/[\w.@-]+)+/?(?<=.{{{MIN_QUOTED_CHARS}}})")


def leak_level(text: str, trace: Trace, site: ErrorSite, declared: LeakLevel) -> LeakLevel:
    """The level of a hint: what its layer declares, unless it holds the answer."""
    return "L2" if gives_the_answer(text, trace, site) else declared


def quotes_the_call(text: str, trace: Trace, turn: int) -> bool:
    """Whether the hint repeats the failed action or the arguments of one of its calls."""
    message = trace.messages[trace.turns[turn].start]
    said = " ".join(text.split())
    calls = [call["function"]["arguments"] for call in message.get("tool_calls", [])]
    if any(len(part) > 2 and " ".join(part.split()) in said for part in [message["content"], *calls]):
        return True
    values = [" ".join(value.split())[:QUOTED_CHARS] for call in calls for value in _texts(call)]
    return any(len(value) >= MIN_QUOTED_CHARS and value in said for value in values)


def without_paths(line: str, trace: Trace, turn: int) -> str:
    """The line with a dot for each path that the failed call gave: programs name the folder they were started in."""
    calls = trace.messages[trace.turns[turn].start].get("tool_calls", [])
    paths = [value for call in calls for value in _texts(call["function"]["arguments"]) if _PATH.fullmatch(value)]
    for path in sorted(paths, key=len, reverse=True):
        line = line.replace(path, "…")
    return line


def gives_the_answer(text: str, trace: Trace, site: ErrorSite) -> bool:
    """Whether the hint holds a distinctive value of the right call that the actor had not seen."""
    call = correction_of(trace, site)
    if call is None:
        return False
    said = _spaced(text)
    told = [stretch for value in _values(arguments_written(call)) for stretch in _stretches(value) if stretch in said]
    if not told:
        return False
    seen = _spaced(_seen(trace, site))
    return any(stretch not in seen for stretch in told)


def correction_of(trace: Trace, site: ErrorSite) -> ToolCall | None:
    """The actor's next call that succeeded, with the same tool where the error says anything about a tool."""
    wanted = None if site.error_kind in UNTIED_KINDS else site.tool_name
    for turn in range(site.turn + 1, len(trace.turns)):
        at = trace.turns[turn]
        results = trace.messages[at.start + 1 : at.end]
        succeeded = {result.get("tool_call_id") for result in results if not result.get("is_error", False)}
        for call in trace.messages[at.start].get("tool_calls", []):
            if call["id"] in succeeded and wanted in (None, call["function"]["name"]):
                return call
    return None


def _seen(trace: Trace, site: ErrorSite) -> str:
    """Everything the actor had read or written when the error came back, and the error."""
    messages = [*trace.history(site.turn), trace.messages[trace.turns[site.turn].start]]
    parts = [site.error_message, canonical_json(trace.tools)]
    for message in messages:
        parts.append(message["content"])
        parts += [text for call in message.get("tool_calls", []) for text in _values(arguments_written(call))]
    return "\n".join(parts)


def _spaced(text: str) -> str:
    """Pieces between single spaces, so that a stretch of pieces is a plain substring."""
    return f" {' '.join(PIECE.findall(text.lower()))} "


def _stretches(value: str) -> Iterator[str]:
    pieces = PIECE.findall(value.lower())
    if len(pieces) <= STRETCH:
        if _distinctive(value.strip()):
            yield f" {' '.join(pieces)} "
        return
    for start in range(len(pieces) - STRETCH + 1):
        part = pieces[start : start + STRETCH]
        if sum(piece[0].isalnum() for piece in part) >= MIN_STRETCH_WORDS:
            yield f" {' '.join(part)} "


def _distinctive(value: str) -> bool:
    return len(value) >= MIN_WORD_CHARS or (len(value) >= MIN_MARKED_CHARS and not value.isalpha())


def _values(arguments: Any) -> Iterator[str]:
    """Texts and numbers at any depth."""
    if isinstance(arguments, dict):
        for value in cast("dict[str, Any]", arguments).values():
            yield from _values(value)
    elif isinstance(arguments, list):
        for value in cast("list[Any]", arguments):
            yield from _values(value)
    elif isinstance(arguments, (str, int, float)) and not isinstance(arguments, bool):
        yield str(arguments)


def _texts(arguments: str) -> list[str]:
    try:
        fields: object = json.loads(arguments)
    except (ValueError, RecursionError):
        return [arguments]
    values = cast("dict[str, object]", fields).values() if isinstance(fields, dict) else []
    return [value for value in values if isinstance(value, str)]
