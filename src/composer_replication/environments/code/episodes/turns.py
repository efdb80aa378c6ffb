"""One turn of calls, whoever made it: read, run in order in a session, and written down.

A turn that cannot be read as calls is refused as a whole and keeps its place. Reads and writes nothing of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import chain, count
from typing import NamedTuple

from composer_replication.records import ToolCall

from .session import TaskSession, ToolResult
from .tools import ToolError, read_arguments
from .transcript import Transcript

MAX_CALLS_PER_TURN = 8


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
