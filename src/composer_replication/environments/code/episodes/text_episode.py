"""A code task for policies that act on text: a turn, its answer, and in the end a grade.

The sandbox is opened by the first turn, so that many episodes may wait for a place in a batch without one. It is gone
when the work is handed in.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from composer_replication.records import JsonObject, Message, Trace

from ...calls import without_thought
from ...evidence import AttemptEvidence
from ...protocol import PlainAnswer
from ..tasks.task import AskedTask
from .session import Grader, SessionLimits, TaskSession
from .tools import TOOL_SCHEMAS, ToolError
from .transcript import code_transcript
from .turns import Taken, read_calls, refuse_turn, take_turn


class TextEpisode(ABC):
    """What both ways to answer share. A subclass opens the session and takes a turn."""

    tools: Sequence[JsonObject] = ()

    def __init__(
        self,
        task: AskedTask,
        backend: str = "auto",
        limits: SessionLimits | None = None,
        grader: Grader | None = None,
    ) -> None:
        self.task, self.backend, self.limits, self.grader = task, backend, limits or SessionLimits(), grader
        self.messages: Sequence[Message] = task.messages
        self.finished = False
        self.session: TaskSession | None = None
        """None before the first turn."""
        self._transcript = code_transcript(task.folder.code_task, self.messages, self.tools)

    @property
    def reward(self) -> float:
        """Read when the episode ends: work that was not handed in is graded as it is."""
        if self.session is None:
            return 0.0
        self.session.stop()
        return self.session.reward

    @property
    def evidence(self) -> AttemptEvidence | None:
        return self.session.evidence if self.session else None

    def grade_deeper(self) -> None:
        if self.session:
            self.session.grade_deeper()

    def overrule(self, why: str) -> None:
        if self.session:
            self.session.overrule(why)

    @property
    def ended(self) -> str | None:
        return self.session.ended if self.session else None

    @property
    def steps(self) -> int:
        """Tool calls, refused turns too."""
        return self.session.steps if self.session else 0

    def step(self, turn: str) -> PlainAnswer:
        self.session = self.session or self.open_session()
        taken = self.take(self.session, without_thought(turn))
        self.finished = taken.done
        return PlainAnswer(taken.text, any(result.is_error for result in taken.results))

    def trace(self, source_model: str, sample: int) -> Trace:
        return self._transcript.trace(source_model, sample, self.reward)

    def close(self) -> None:
        if self.session:
            self.session.close()

    @abstractmethod
    def open_session(self) -> TaskSession: ...

    @abstractmethod
    def take(self, session: TaskSession, turn: str) -> Taken: ...

    def refuse(self, session: TaskSession, turn: str, why: ToolError) -> Taken:
        return refuse_turn(session, self._transcript, turn, why)


class AgentEpisode(TextEpisode):
    """Works with the six tools. Several calls of one turn run in order."""

    tools = TOOL_SCHEMAS

    def open_session(self) -> TaskSession:
        return TaskSession(self.task.folder, self.backend, self.limits, self.grader)

    def take(self, session: TaskSession, turn: str) -> Taken:
        try:
            reply = read_calls(turn)
        except ToolError as error:
            return self.refuse(session, turn, error)
        return take_turn(session, self._transcript, reply)
