"""One attempt: the model speaks, the tools answer, until the work is handed in or a limit is reached.

Reads a task, writes nothing; what happened comes back as a `Trace`. A turn that cannot be read as calls is answered
like any other and counts as a step. An attempt that the model cannot go on with is graded as it stands, and says so.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from itertools import chain, count
from typing import NamedTuple, Protocol

from composer_replication.records import JsonObject, Message, ToolCall, Trace

from ...evidence import AttemptEvidence, CanaryHit
from ..tasks.task import TaskFolder
from .prompt import opening
from .session import SessionLimits, TaskSession, ToolResult
from .tools import TOOL_SCHEMAS, ToolError, is_encodable, read_arguments
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


class NoReply(Exception):
    """The model cannot go on with this attempt: no answer, no money, or a context that is full."""


class Stopped(Exception):
    """The run is ending; this attempt was not finished and is made again another time."""


class ChatModel(Protocol):
    """`asked` names the turn: the same one is never paid for twice."""

    @property
    def name(self) -> str: ...

    def reply(self, messages: Sequence[Message], tools: Sequence[JsonObject], asked: str) -> Reply: ...


@dataclass(frozen=True)
class AgentLimits:
    session: SessionLimits = field(default_factory=SessionLimits)
    turns: int = 60
    tokens: int = 200_000
    """Of all that the model writes in one attempt."""
    idle_turns: int = 3
    """Turns in a row without a call, after which the attempt is over."""


class Attempt(NamedTuple):
    trace: Trace
    reward: float
    ended: str
    """Why it was over: `submitted`, `steps`, `time`, `turns`, `tokens`, `idle` or `no_reply: …`."""
    steps: int
    wall_s: float
    canary_hits: tuple[CanaryHit, ...] = ()
    evidence: AttemptEvidence | None = None


def attempt_task(
    task: TaskFolder,
    model: ChatModel,
    sample: int,
    limits: AgentLimits | None = None,
    backend: str = "auto",
    messages: Sequence[Message] | None = None,
    stop: threading.Event | None = None,
) -> Attempt:
    """`messages` stand in for the usual opening. Where `stop` gets set, the next turn raises `Stopped`."""
    limits = limits or AgentLimits()
    transcript = Transcript(task.code_task, messages or opening(task.code_task), TOOL_SCHEMAS)
    with TaskSession(task, backend, limits.session) as session:
        name = f"{task.code_task.task.task_id}/{sample}"
        ended = _play(session, model, transcript, limits, name, stop or threading.Event())
        session.stop()
        trace = transcript.trace(model.name, sample, session.reward)
        wall_s = session.limits.wall_s - session.remaining_s
        hits = tuple(session.canary_hits)
        return Attempt(trace, session.reward, ended, session.steps, wall_s, hits, session.evidence)


def _play(
    session: TaskSession,
    model: ChatModel,
    transcript: Transcript,
    limits: AgentLimits,
    name: str,
    stop: threading.Event,
) -> str:
    tokens = idle = 0
    while transcript.turns < limits.turns:
        if stop.is_set():
            raise Stopped(name)
        try:
            reply = model.reply(transcript.messages, TOOL_SCHEMAS, f"{name}/{transcript.turns}")
        except NoReply as error:
            return f"no_reply: {error}"
        tokens += reply.tokens
        called, done = _take(session, transcript, reply)
        idle = 0 if called else idle + 1
        if done:
            return session.ended or "submitted"
        if idle >= limits.idle_turns:
            return "idle"
        if tokens >= limits.tokens:
            return "tokens"
    return "turns"


def _take(session: TaskSession, transcript: Transcript, reply: Reply) -> tuple[bool, bool]:
    """Whether the turn called something, and whether that ended the session."""
    said = reply.text if is_encodable(reply.text) else reply.text.encode("utf-8", "replace").decode()
    try:
        if not reply.calls:
            raise ToolError("Your response did not call a tool. Call `submit` when the work is done.")
        if len(reply.calls) > MAX_CALLS_PER_TURN:
            raise ToolError(f"Your response could not be parsed: more than {MAX_CALLS_PER_TURN} calls in one turn.")
        read = [(call.name, read_arguments(call.name, call.arguments)) for call in reply.calls]
    except ToolError as error:
        result = session.refuse(error)
        # Servers cannot read calls back that are no JSON, so a broken one is kept as text.
        broken = "".join(f"\n<tool_call>{call.name} {call.arguments}</tool_call>" for call in reply.calls)
        transcript.add_text((said + broken).strip().encode("utf-8", "replace").decode(), result, reply.thinking)
        return False, result.done
    results: list[ToolResult] = []
    for name, arguments in read:
        results.append(session.call(name, arguments))
    transcript.add_calls(said, _named(reply.calls, transcript), results, reply.thinking)
    return True, results[-1].done


def _named(made: Sequence[WireCall], transcript: Transcript) -> list[ToolCall]:
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
