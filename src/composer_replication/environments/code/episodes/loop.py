"""One attempt: the model speaks, the tools answer, until the work is handed in or a limit is reached.

Reads a task, writes nothing; what happened comes back as a `Trace`. A turn that cannot be read as calls is answered
like any other and counts as a step. An attempt that the model cannot go on with is graded as it stands, and says so.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from composer_replication.errors import RecomposeError
from composer_replication.records import JsonObject, Message

from ...attempts import Attempt
from ...untrusted import encodable
from ..tasks.task import TaskFolder
from .session import SessionLimits, TaskSession
from .text_episode import TextEpisode
from .tools import TOOL_SCHEMAS, opening
from .transcript import Transcript, code_transcript
from .turns import Reply, take_turn


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
    transcript = code_transcript(task.code_task, messages or opening(task.code_task), TOOL_SCHEMAS)
    with TaskSession(task, backend, limits.session) as session:
        name = f"{task.code_task.task.task_id}/{sample}"
        try:
            ended = _play(session, model, transcript, limits, name, stop or threading.Event())
            session.stop()
        except (RecomposeError, Stopped):
            raise
        except Exception as error:
            ended = _broken(error)
        trace = transcript.trace(model.name, sample, session.reward)
        wall_s = session.limits.wall_s - session.remaining_s
        return Attempt(trace, session.reward, ended, session.steps, wall_s, session.evidence, session)


def attempt_in_words(
    episode: TextEpisode, model: ChatModel, sample: int, limits: AgentLimits, stop: threading.Event | None = None
) -> Attempt:
    """For a model that is asked for text alone; what it reads are messages of the user."""
    started, name = time.monotonic(), f"{episode.task.task_id}/{sample}"
    messages: list[Message] = list(episode.messages)
    ended, tokens = "turns", 0
    try:
        for turn in range(limits.turns):
            if stop and stop.is_set():
                raise Stopped(name)
            try:
                reply = model.reply(messages, (), f"{name}/{turn}")
            except NoReply as error:
                ended = f"no_reply: {error}"
                break
            answer = episode.step(reply.text)
            tokens += reply.tokens
            if episode.finished or tokens >= limits.tokens:
                ended = episode.ended or "tokens"
                break
            messages.append({"role": "assistant", "content": reply.text})
            messages.append({"role": "user", "content": answer.observation or ""})
        trace = episode.trace(model.name, sample)
        wall_s = time.monotonic() - started
        return Attempt(trace, episode.reward, ended, episode.steps, wall_s, episode.evidence, episode)
    finally:
        episode.close()


def _broken(error: Exception) -> str:
    """What was left behind broke whoever read it: no reward, and the other attempts go on."""
    return encodable(f"broken: {type(error).__name__}: {error}"[:200])


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
        taken = take_turn(session, transcript, reply)
        idle = 0 if taken.called else idle + 1
        if taken.done:
            return session.ended or "submitted"
        if idle >= limits.idle_turns:
            return "idle"
        if tokens >= limits.tokens:
            return "tokens"
    return "turns"
