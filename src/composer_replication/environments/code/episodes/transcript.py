"""An attempt as a `Trace`, turn by turn: what was said, which tools were called, and what they answered.

A turn that was no call keeps its place: its text, then an answer that belongs to no call and is marked as an error.
"""

from __future__ import annotations

from collections.abc import Sequence

from composer_replication.records import JsonObject, Message, Source, ToolCall, Trace, Turn, content_id, family_of

from ...untrusted import encodable
from ..tasks.task import CodeTask
from .session import ToolResult

AGENT = "code_task"


class Transcript:
    """`messages` is the conversation so far, as the OpenAI wire has it but for `is_error`."""

    def __init__(
        self,
        agent: str,
        task_id: str,
        opening: Sequence[Message],
        tools: Sequence[JsonObject],
        licence: str | None = None,
    ) -> None:
        self._source, self._task_id, self._tools = Source(agent=agent, licence=licence), task_id, tuple(tools)
        self.messages: list[Message] = list(opening)
        self._spans: list[tuple[int, int]] = []
        self._thinking: list[str] = []

    @property
    def turns(self) -> int:
        return len(self._spans)

    def add_calls(
        self, said: str, calls: Sequence[ToolCall], results: Sequence[ToolResult], thinking: str = ""
    ) -> None:
        answers = [
            answer(result.text, call["id"], result.is_error) for call, result in zip(calls, results, strict=True)
        ]
        self.add(said, calls, answers, thinking)

    def add_text(self, said: str, result: ToolResult, thinking: str = "") -> None:
        """A turn that called nothing."""
        self.add(said, (), [answer(result.text, None, result.is_error)], thinking)

    def add(self, said: str, calls: Sequence[ToolCall], answers: Sequence[Message], thinking: str = "") -> None:
        """What no file could hold is replaced here, once for all."""
        start = len(self.messages)
        turn: Message = {"role": "assistant", "content": encodable(said)}
        if calls:
            turn["tool_calls"] = [_encodable_call(call) for call in calls]
        self.messages.append(turn)
        for told in answers:
            self.messages.append({**told, "content": encodable(told["content"] or "")})
        self._spans.append((start, len(self.messages)))
        self._thinking.append(encodable(thinking))

    def trace(self, source_model: str, sample: int, outcome: float | None) -> Trace:
        return Trace(
            trace_id=content_id(self._source.agent, self._task_id, source_model, sample, self.messages),
            source=self._source,
            task_id=self._task_id,
            messages=tuple(self.messages),
            turns=tuple(
                Turn(start=start, end=end, thinking=said, source_model=source_model, family=family_of(source_model))
                for (start, end), said in zip(self._spans, self._thinking, strict=True)
            ),
            tools=self._tools,
            outcome=outcome,
        )


def code_transcript(known: CodeTask, opening: Sequence[Message], tools: Sequence[JsonObject]) -> Transcript:
    licence = known.provenance.get("licence")
    return Transcript(AGENT, known.task.task_id, opening, tools, licence if isinstance(licence, str) else None)


def _encodable_call(call: ToolCall) -> ToolCall:
    name, arguments = call["function"]["name"], call["function"]["arguments"]
    return {**call, "function": {"name": encodable(name), "arguments": encodable(arguments)}}


def answer(text: str, call_id: str | None, failed: bool) -> Message:
    told: Message = {"role": "tool", "content": text}
    if call_id is not None:
        told["tool_call_id"] = call_id
    if failed:
        told["is_error"] = True
    return told


def under_server_ids(messages: Sequence[Message], named: Sequence[Sequence[str | None]]) -> list[Message]:
    """With the ids that the server gave the calls of its turns, first turn first, repeated ones too.

    A trace holds each id once. A server that knows its turns by them, and begins anew in each, needs its own back."""
    turns = iter(named)
    ids: dict[str, str] = {}
    given: list[Message] = []
    for message in messages:
        message = message.copy()
        if message["role"] == "assistant":
            calls = message.get("tool_calls", [])
            ids = {call["id"]: call_id for call, call_id in zip(calls, next(turns, ()), strict=False) if call_id}
            if calls:
                message["tool_calls"] = [{**call, "id": ids.get(call["id"], call["id"])} for call in calls]
        elif "tool_call_id" in message:
            message["tool_call_id"] = ids.get(message["tool_call_id"], message["tool_call_id"])
        given.append(message)
    return given


def wire(messages: Sequence[Message]) -> list[JsonObject]:
    """As a server takes it: an answer that belongs to no call is the user's word there."""
    sent: list[JsonObject] = []
    for message in messages:
        plain: JsonObject = {key: value for key, value in message.items() if key != "is_error"}
        if plain["role"] == "tool" and "tool_call_id" not in plain:
            plain["role"] = "user"
        sent.append(plain)
    return sent
