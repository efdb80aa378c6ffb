"""A code task for policies that act on text: one turn, one call, one answer.

It has the shape that rollout workers want (`messages`, `step`, `finished`, `reward`, `trace`, `close`). The sandbox is
opened by the first turn, so that many episodes may wait for a place in a batch without one.
"""

from __future__ import annotations

from typing import NamedTuple

from composer_replication.records import Message, ToolCall, Trace, canonical_json

from ..tasks.task import TaskFolder
from .prompt import opening
from .session import SessionLimits, TaskSession, ToolResult
from .text_calls import read_call
from .tools import TOOL_SCHEMAS, ToolError
from .transcript import Transcript


class Answer(NamedTuple):
    observation: str | None


class TextEpisode:
    def __init__(self, task: TaskFolder, backend: str = "auto", limits: SessionLimits | None = None) -> None:
        self.task, self._backend, self._limits = task, backend, limits
        self.messages: list[Message] = opening(task.code_task, calls_as_text=True)
        self._transcript = Transcript(task.code_task, self.messages, TOOL_SCHEMAS)
        self._session: TaskSession | None = None
        self.finished = False

    @property
    def reward(self) -> float:
        """Read when the episode ends: work that was not handed in is graded as it is."""
        if self._session is None:
            return 0.0
        self._session.stop()
        return self._session.reward

    def step(self, text: str) -> Answer:
        self._session = self._session or TaskSession(self.task, self._backend, self._limits)
        try:
            call = read_call(text)
        except ToolError as error:
            result = self._session.refuse(error)
            self._transcript.add_text(text, result)
            return self._answered(result)
        result = self._session.call(call.name, call.arguments)
        made: ToolCall = {
            "id": f"call_{self._transcript.turns}",
            "type": "function",
            "function": {"name": call.name, "arguments": canonical_json(call.arguments)},
        }
        self._transcript.add_calls(call.said, [made], [result])
        return self._answered(result)

    def trace(self, source_model: str, sample: int) -> Trace:
        return self._transcript.trace(source_model, sample, self.reward)

    @property
    def session(self) -> TaskSession | None:
        """None before the first turn."""
        return self._session

    def close(self) -> None:
        if self._session:
            self._session.close()

    def _answered(self, result: ToolResult) -> Answer:
        self.finished = result.done
        return Answer(result.text)
