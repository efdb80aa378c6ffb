"""The events of an OpenHands session that the model saw, in order, and what a condensation leaves of them.

A condensation names the events to forget and the place, counted in events, where its summary goes. The restart is
recorded when the next turn begins, because what is said before that turn belongs behind the messages that were kept.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, field

from composer_replication.records import JsonObject

from ..conversation import Conversation
from ..dialogue import CallIds, ModelReply, add_reply
from ..reading import Document
from ..session import AssistantTurn, Said
from ..values import as_name, as_text

EventId = int | str
STILL_RUNNING = -1


@dataclass
class _Entry:
    """A message, or for bookkeeping events that only count for the place of a summary, none."""

    message: Said | AssistantTurn | None
    broken: bool = False
    """Whether a condensation forgot some of the turn's events: then the model no longer saw the turn."""


@dataclass
class View:
    conversation: Conversation
    ids: CallIds = field(default_factory=CallIds)
    _turn_of: dict[str, AssistantTurn] = field(default_factory=dict[str, AssistantTurn])
    _events: list[tuple[EventId | None, _Entry]] = field(default_factory=list[tuple[EventId | None, _Entry]])
    _turns: dict[int, _Entry] = field(default_factory=dict[int, _Entry])
    _condensed: bool = False

    def say(self, event_id: EventId | None, text: str) -> None:
        if text.strip():
            self._events.append((event_id, _Entry(self.conversation.say(text))))
        else:
            self.pass_by(event_id)

    def pass_by(self, event_id: EventId | None) -> None:
        self._events.append((event_id, _Entry(None)))

    def turn(
        self, event_id: EventId | None, key: str | None, model: str | None, document: Document, reply: ModelReply
    ) -> AssistantTurn:
        """An event in which the model spoke: a turn of its own, or another part of the turn with this key."""
        if self._condensed:
            self._condensed = False
            self.conversation.restart(self._kept())
        turn, _ = self.conversation.turn(key, model, document.start, document.end)
        entry = self._turns.setdefault(id(turn), _Entry(turn))
        self._events.append((event_id, entry))
        add_reply(self.conversation, turn, reply, self.ids)
        self._turn_of.update((call.call_id, turn) for call in turn.calls)
        return turn

    def part(self, event_id: EventId | None, turn: AssistantTurn | None) -> None:
        """A further event of a turn: another of its calls, or a result."""
        self._events.append((event_id, self._turns.get(id(turn)) or _Entry(None)))

    def result(self, event_id: EventId | None, call_id: str, text: str, is_error: bool) -> None:
        self.part(event_id, self._turn_of.get(call_id))
        self.conversation.result(call_id, text, is_error)

    def condense(self, forgotten: Set[EventId], summary: str, offset: int | None, summary_id: EventId) -> None:
        kept: list[tuple[EventId | None, _Entry]] = []
        for event_id, entry in self._events:
            if event_id is not None and event_id in forgotten:
                entry.broken = True
            else:
                kept.append((event_id, entry))
        self._events = [(event_id, entry) for event_id, entry in kept if not entry.broken]
        if summary.strip() and offset is not None:
            self._events.insert(max(offset, 0), (summary_id, _Entry(self.conversation.say(summary))))
        self._condensed = True

    def event_ids(self) -> set[EventId]:
        return {event_id for event_id, _ in self._events if event_id is not None}

    def _kept(self) -> list[Said | AssistantTurn]:
        messages = [entry.message for _, entry in self._events if entry.message is not None and not entry.broken]
        return list({id(message): message for message in messages}.values())


def command_output(text: str, metadata: JsonObject, exit_code: int | None, command: str = "Command") -> str:
    """A shell's output with the lines that OpenHands adds to it for the model."""
    lines = [f"{as_text(metadata.get('prefix'))}{text}{as_text(metadata.get('suffix'))}"]
    if folder := as_name(metadata.get("working_dir")):
        lines.append(f"[Current working directory: {folder}]")
    if python := as_name(metadata.get("py_interpreter_path")):
        lines.append(f"[Python interpreter: {python}]")
    if exit_code is not None and exit_code != STILL_RUNNING:
        lines.append(f"[{command} finished with exit code {exit_code}]")
    return "\n".join(lines)
