"""Puts replies of the model, taken apart, into a conversation, under call ids that are unique in it.

`Dialogue` does that for the messages of one document. It keeps what the actor will see next, so that an attempt which
the harness asked to repeat, and then took out of the history, is a turn of its own without showing up in the turns
after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from composer_replication.records import JsonObject, canonical_json

from .conversation import Conversation
from .reading import Document
from .session import AssistantTurn, Said
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


class Dialogue:
    def __init__(self, conversation: Conversation, document: Document) -> None:
        self._conversation = conversation
        self._range = (document.start, document.end)
        self._context: list[Said | AssistantTurn] = []
        self._forgot = False
        self._keys: set[str] = set()
        self._has_system = False
        self._ids = CallIds()

    def system(self, text: str) -> None:
        if self._has_system:
            self.say(text)
        else:
            self._has_system = True
            self._conversation.system(text)

    def say(self, text: str, role: str = "user") -> Said:
        said = self._conversation.say(text, role)
        self._context.append(said)
        return said

    def restart(self) -> None:
        """The harness replaced the history: the next turn sees what is said from here on."""
        self._context.clear()
        self._forgot = False
        self._conversation.restart()

    def turn(self, key: str | None, model: str | None, reply: ModelReply | None = None) -> AssistantTurn:
        """A new turn, even where a cache served one response twice."""
        if self._forgot:
            self._conversation.restart(self._context.copy())
            self._forgot = False
        if key in self._keys:
            key = None
        if key:
            self._keys.add(key)
        turn, _ = self._conversation.turn(key, model, *self._range)
        self._context.append(turn)
        self._ids.forget_open()
        self.add(turn, reply or ModelReply())
        return turn

    def add(self, turn: AssistantTurn, part: ModelReply) -> None:
        add_reply(self._conversation, turn, part, self._ids)

    def answer(self, recorded_id: str | None, text: str, is_error: bool = False) -> str | None:
        """Gives the call's id in the trace. Without an id it is the oldest call of the last turn that has no result."""
        call_id = self._ids.end(recorded_id)
        if call_id is not None:
            self._conversation.result(call_id, text, is_error)
        return call_id

    def answer_or_say(self, text: str, is_error: bool = False) -> str | None:
        """Where no call waits for a result, the text is context."""
        call_id = self.answer(None, text, is_error)
        if call_id is None:
            self.say(text)
        return call_id

    def forget(self, entries: Sequence[Said | AssistantTurn]) -> None:
        """The harness took these out of the history: later turns do not see them."""
        gone = {id(entry) for entry in entries}
        self._context = [entry for entry in self._context if id(entry) not in gone]
        self._forgot = self._forgot or bool(gone)
