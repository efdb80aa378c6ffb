"""A reply of the model taken apart, and put into a turn under call ids that are unique in the conversation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from composer_replication.records import JsonObject, canonical_json

from .conversation import Conversation
from .session import AssistantTurn
from .values import as_object


class ParsedCall(NamedTuple):
    call_id: str | None
    name: str
    arguments: str | JsonObject


class ModelReply(NamedTuple):
    text: str = ""
    thinking: str = ""
    calls: Sequence[ParsedCall] = ()

    @property
    def calls_are_text(self) -> bool:
        """Whether calls have no ids, as where they are written in the text: then neither have their results."""
        return any(call.call_id is None for call in self.calls)


class CallIds:
    """Ids that are unique in a conversation, for files without ids or where each response counts from zero."""

    def __init__(self) -> None:
        self._ids: dict[str, str] = {}
        self._open: list[str] = []

    def begin(self, recorded: str | None) -> str:
        made_up = f"{recorded or 'call'}/{len(self._ids)}"
        call_id = recorded if recorded and recorded not in self._ids else made_up
        self._ids[recorded or call_id] = self._ids[call_id] = call_id
        self._open.append(call_id)
        return call_id

    def find(self, recorded: str) -> str:
        return self._ids.get(recorded, recorded)

    def end(self, recorded: str | None) -> str | None:
        """The call that a result belongs to; one without an id belongs to the first call that waits."""
        call_id = next(iter(self._open), None) if recorded is None else self.find(recorded)
        if call_id in self._open:
            self._open.remove(call_id)
        return call_id

    def forget_open(self) -> None:
        """A new turn begins: results without an id belong to its calls."""
        self._open.clear()


def add_reply(conversation: Conversation, turn: AssistantTurn, reply: ModelReply, ids: CallIds) -> None:
    conversation.add_thinking(turn, reply.thinking)
    conversation.add_text(turn, reply.text)
    for call in reply.calls:
        conversation.call(turn, ids.begin(call.call_id), call.name, call.arguments)


def arguments_of(value: Any) -> str | JsonObject:
    """Arguments as the model wrote them: an object, or text that may or may not be one."""
    if isinstance(value, str):
        return value
    return as_object(value) if isinstance(value, dict) or value is None else canonical_json(value)
