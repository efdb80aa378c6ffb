"""Puts a session that was read in file order into one valid conversation.

An assistant message keeps the place where it began; its tool results follow it in call order, wherever they were
recorded. A call without a result gets a placeholder, and a result without a call is dropped.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from composer_replication.records import Message, Segment, Source, ToolCall, Trace, Turn, family_of

NO_RESULT = "[no result recorded]"


@dataclass
class UserDraft:
    text: str
    dropped: bool = False


@dataclass
class AssistantDraft:
    model: str | None
    byte_range: tuple[int, int]
    texts: list[str] = field(default_factory=list[str])
    thinking: list[str] = field(default_factory=list[str])
    calls: list[ToolCall] = field(default_factory=list[ToolCall])

    def message(self) -> Message:
        said: Message = {"role": "assistant", "content": "\n\n".join(self.texts)}
        if self.calls:
            said["tool_calls"] = self.calls
        return said


class Restart:
    """From here on the actor saw the system message and what follows, not the past."""


class Conversation:
    def __init__(self, system_prompt: str, skipped: Counter[str]) -> None:
        self._system_prompt = system_prompt
        self._skipped = skipped
        self._entries: list[UserDraft | AssistantDraft | Restart] = []
        self._assistants: dict[str, AssistantDraft] = {}
        self._call_ids: set[str] = set()
        self._results: dict[str, Message] = {}

    def say(self, text: str) -> UserDraft:
        draft = UserDraft(text)
        self._entries.append(draft)
        return draft

    def restart(self) -> None:
        self._entries.append(Restart())

    def assistant(self, key: str, model: str | None, start: int, end: int) -> tuple[AssistantDraft, bool]:
        """The draft of this message, and whether it begins here."""
        draft = self._assistants.get(key)
        if draft is not None:
            draft.byte_range = (draft.byte_range[0], end)
            return draft, False
        draft = self._assistants[key] = AssistantDraft(model, (start, end))
        self._entries.append(draft)
        return draft, True

    def call(self, draft: AssistantDraft, call_id: str, name: str, arguments: str) -> None:
        if call_id in self._call_ids:
            self._skipped["duplicate_call"] += 1
            return
        self._call_ids.add(call_id)
        draft.calls.append({"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}})

    def result(self, call_id: str, content: str, is_error: bool) -> None:
        if call_id in self._results:
            self._skipped["duplicate_result"] += 1
            return
        message: Message = {"role": "tool", "content": content, "tool_call_id": call_id}
        if is_error:
            message["is_error"] = True
        self._results[call_id] = message

    def trace(self, trace_id: str, source: Source) -> Trace:
        messages: list[Message] = [{"role": "system", "content": self._system_prompt}]
        segments = [Segment(start=0)]
        turns: list[Turn] = []
        for entry in self._entries:
            if isinstance(entry, Restart):
                segments.append(Segment(start=len(messages), preserved=(0,)))
            elif isinstance(entry, UserDraft):
                if not entry.dropped:
                    messages.append({"role": "user", "content": entry.text})
            else:
                start = len(messages)
                messages.append(entry.message())
                messages += [self._result_of(call["id"]) for call in entry.calls]
                turns.append(_turn(entry, start, len(messages), len(segments) - 1))
        strays = self._results.keys() - self._call_ids
        if strays:
            self._skipped["result_without_call"] += len(strays)
        return Trace(
            trace_id=trace_id,
            source=source,
            messages=tuple(messages),
            turns=tuple(turns),
            segments=tuple(segments),
        )

    def _result_of(self, call_id: str) -> Message:
        return self._results.get(call_id) or {"role": "tool", "content": NO_RESULT, "tool_call_id": call_id}


def _turn(draft: AssistantDraft, start: int, end: int, segment: int) -> Turn:
    return Turn(
        start=start,
        end=end,
        segment=segment,
        thinking="\n\n".join(draft.thinking),
        source_model=draft.model,
        family=family_of(draft.model),
        fidelity="reconstructed",
        byte_range=draft.byte_range,
    )
