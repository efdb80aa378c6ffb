"""One turn of calls, whoever made it: read, run in order in a session, and written down.

A turn that cannot be read as calls is refused as a whole and keeps its place. In plain text, calls are JSON objects
between marks, the way Hermes and Qwen models write them. Reads and writes nothing of its own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Sequence
from itertools import chain, count
from typing import Any, NamedTuple, cast

from composer_replication.records import JsonObject, Message, ToolCall, canonical_json

from ...calls import CLOSE, OPEN
from ...untrusted import read_json
from .session import TaskSession, ToolResult
from .tools import ToolError, read_arguments
from .transcript import Transcript

MAX_CALLS_PER_TURN = 8
_CALL = re.compile(rf"{OPEN}\s*(.*?)\s*(?:{CLOSE}|(?={OPEN})|\Z)", re.DOTALL)


class WireCall(NamedTuple):
    """A call as the model made it."""

    name: str
    arguments: str
    """The text on the wire, not yet read."""
    call_id: str | None = None
    """What the server calls it; None where it has no name there."""


class Reply(NamedTuple):
    """What a model said in one turn."""

    text: str
    calls: Sequence[WireCall] = ()
    thinking: str = ""
    tokens: int = 0


class Taken(NamedTuple):
    results: Sequence[ToolResult]
    """One per call, or the one answer to a turn without calls."""
    called: bool

    @property
    def done(self) -> bool:
        return self.results[-1].done

    @property
    def text(self) -> str:
        """All results as one message; several are numbered."""
        if len(self.results) == 1:
            return self.results[0].text
        return "\n".join(f"[call {number}]\n{result.text}" for number, result in enumerate(self.results, 1))


def take_turn(session: TaskSession, transcript: Transcript, reply: Reply) -> Taken:
    try:
        if not reply.calls:
            raise ToolError("Your response did not call a tool. Call `submit` when the work is done.")
        if len(reply.calls) > MAX_CALLS_PER_TURN:
            raise ToolError(f"Your response could not be parsed: more than {MAX_CALLS_PER_TURN} calls in one turn.")
        read = [(call.name, read_arguments(call.name, call.arguments)) for call in reply.calls]
    except ToolError as error:
        # Servers cannot read calls back that are no JSON, so a broken one is kept as text.
        broken = "".join(f"\n<tool_call>{call.name} {call.arguments}</tool_call>" for call in reply.calls)
        return refuse_turn(session, transcript, (reply.text + broken).strip(), error, reply.thinking)
    results: list[ToolResult] = []
    for name, arguments in read:
        results.append(session.call(name, arguments))
    transcript.add_calls(reply.text, named_calls(reply.calls, transcript), results, reply.thinking)
    return Taken(results, called=True)


def refuse_turn(session: TaskSession, transcript: Transcript, said: str, why: ToolError, thinking: str = "") -> Taken:
    """A step for a turn that was no call at all."""
    result = session.refuse(why)
    transcript.add_text(said, result, thinking)
    return Taken([result], called=False)


def named_calls(made: Sequence[WireCall], transcript: Transcript) -> list[ToolCall]:
    """Under the server's ids, so that it knows its own turn again. One that the trace has already is not used twice."""
    taken = {call["id"] for message in transcript.messages for call in message.get("tool_calls", ())}
    named: list[ToolCall] = []
    for number, (name, text, wanted) in enumerate(made):
        call_id = _free_id(wanted, f"call_{transcript.turns}_{number}", taken)
        taken.add(call_id)
        named.append({"id": call_id, "type": "function", "function": {"name": name, "arguments": text or "{}"}})
    return named


def _free_id(wanted: str | None, own: str, taken: Collection[str]) -> str:
    names = chain((wanted, own), (f"{own}_{number}" for number in count(1)))
    return next(name for name in names if name and name not in taken)


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
