"""Puts what a reader finds, in file order, into one valid conversation.

An assistant message keeps the place where it began; its tool results follow it in call order, wherever they were
recorded. A call without a result gets a placeholder, and a result without a call is dropped and counted. Texts are
redacted as they come in and go to a spool, so that memory does not grow with the size of a session.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from sys import intern
from typing import Any

import orjson

from composer_replication.records import (
    Fidelity,
    JsonObject,
    Segment,
    Source,
    canonical_json,
)

from .reading import InputFile
from .session import AssistantTurn, PlacedTurn, Said, Session, SessionCall
from .spool import Spool
from .tools import ToolUse

SYSTEM_PROMPT = (
    "You are a coding agent in the user's repository. Work through the tools you are given: read before you change, "
    "change only what the task needs, check the result, and say briefly what you did."
)


@dataclass
class Restart:
    """From here on the actor saw the system message, what was kept, and what follows; a summary may stand first."""

    kept: Sequence[Said | AssistantTurn]
    summary_follows: bool
    is_incomplete: bool = False
    """Whether more was kept than the file holds."""


@dataclass
class Rewind:
    """The user went back to before `to`."""

    to: Said


@dataclass
class Clearing:
    """The harness emptied these results to save context."""

    call_ids: Sequence[str]


@dataclass
class Layout:
    """Where everything lies once the order is known."""

    segments: list[Segment] = field(default_factory=lambda: [Segment(start=0)])
    incomplete: set[int] = field(default_factory=set[int])
    """Segments in which a turn saw more than the file holds."""
    segment_of_said: dict[int, int] = field(default_factory=dict[int, int])
    messages: list[Said | AssistantTurn] = field(default_factory=list[Said | AssistantTurn])
    turns: list[PlacedTurn] = field(default_factory=list[PlacedTurn])
    length: int = 1


class Conversation:
    """Call `say`, `turn`, `call` and `result` in the order of the file, then `session`."""

    def __init__(self, file: InputFile, agent: str, fidelity: Fidelity = "reconstructed") -> None:
        self._report = file.report
        self._file_name = file.name
        self._licence = file.licence
        self._redactor = file.new_redactor()
        self._spool = Spool()
        self.agent = agent
        self.fidelity: Fidelity = fidelity
        self.version: str | None = None
        self.default_model: str | None = None
        """Of turns that name no model themselves."""
        self.is_subagent = False
        self._system = self._spool.add(SYSTEM_PROMPT)
        self._system_is_ours = True
        self._entries: list[Said | AssistantTurn | Restart | Rewind | Clearing] = []
        self._turns: dict[str, AssistantTurn] = {}
        self._calls: dict[str, SessionCall] = {}
        self._renamed_calls = 0
        self._early_results: dict[str, tuple[str, bool]] = {}
        self._tool_use = ToolUse()
        self._tools: tuple[JsonObject, ...] = ()

    def system(self, text: str) -> None:
        """The recorded system prompt, in place of ours."""
        self._system = self._spool.add(self._redactor.text(text))
        self._system_is_ours = False

    def tools(self, definitions: Iterable[JsonObject]) -> None:
        """The recorded tool list in OpenAI's form: `{"type": "function", "function": {"name", "parameters", …}}`."""
        texts = [_json_text(definition) for definition in definitions if _is_definition(definition)]
        if None in texts:
            self._report.skipped["tool_definition_too_deep"] += texts.count(None)
        self._tools = tuple(orjson.loads(self._redactor.json_text(text)) for text in texts if text)

    def say(self, text: str, role: str = "user") -> Said:
        said = Said(role, self._spool.add(self._redactor.text(text)))
        self._entries.append(said)
        return said

    def keep_place(self) -> Said:
        """The place of a message whose text is not known yet; it counts once `fill` was called."""
        said = Said("user", 0, dropped=True)
        self._entries.append(said)
        return said

    def fill(self, place: Said, text: str) -> None:
        place.text, place.dropped = self._spool.add(self._redactor.text(text)), False

    def restart(
        self, kept: Sequence[Said | AssistantTurn] = (), summary_follows: bool = False, is_incomplete: bool = False
    ) -> None:
        """The history begins anew with `kept`. With `summary_follows` the next message said comes before them."""
        self._entries.append(Restart(kept, summary_follows, is_incomplete))

    def rewind(self, to: Said) -> None:
        self._entries.append(Rewind(to))

    def clear_results(self, call_ids: Sequence[str]) -> None:
        self._entries.append(Clearing(call_ids))

    def turn(self, key: str | None, model: str | None, start: int, end: int) -> tuple[AssistantTurn, bool]:
        """The assistant message with this key, and whether it begins here. Without a key it always begins here.

        `start` and `end` are the bytes of the record in the file. A key is unique in the world: it tells copies of one
        turn in several files apart from other turns.
        """
        turn = self._turns.get(key) if key else None
        if turn is not None:
            turn.end = end
            return turn, False
        turn = AssistantTurn(key, intern(self._redactor.text(model)) if model else None, start, end)
        if key:
            self._turns[key] = turn
        self._entries.append(turn)
        return turn, True

    def add_text(self, turn: AssistantTurn, text: str) -> None:
        if text and not text.isspace():
            turn.texts += (self._spool.add(self._redactor.text(text)),)

    def add_thinking(self, turn: AssistantTurn, text: str) -> None:
        if text and not text.isspace():
            turn.thinking += (self._spool.add(self._redactor.text(text)),)

    def call(self, turn: AssistantTurn, call_id: str, name: str, arguments: str | JsonObject) -> None:
        """A tool call; `arguments` is an object, or the text that the model wrote where that is not one."""
        unique_id = call_id
        if call_id in self._calls:
            if any(call is self._calls[call_id] for call in turn.calls):
                self._report.skipped["duplicate_call"] += 1
                return
            # Some servers number the calls of each turn anew.
            self._renamed_calls += 1
            unique_id = f"{call_id}/{self._renamed_calls}"
        name, (written, fields) = self._redactor.text(name), self._redacted(arguments)
        self._tool_use.begin(call_id, name, fields)
        call = self._calls[call_id] = SessionCall(unique_id, intern(name), self._spool.add(written))
        turn.calls += (call,)
        if early := self._early_results.pop(call_id, None):
            self.result(call_id, *early)

    def _redacted(self, arguments: str | JsonObject) -> tuple[str, str | JsonObject]:
        """As they are written, and as they came: text or an object."""
        if isinstance(arguments, str):
            text = self._redactor.json_text(arguments)
            return text, text
        try:
            fields = self._redactor.json_value(arguments)
            if (text := _json_text(fields)) is not None:
                return text, fields
        except RecursionError:
            pass
        self._report.skipped["arguments_too_deep"] += 1
        return "{}", {}

    def result(self, call_id: str, content: str, is_error: bool = False) -> None:
        """The answer to a call. One that comes before its call waits for it."""
        call = self._calls.get(call_id)
        if call is None and call_id not in self._early_results:
            self._early_results[call_id] = (content, is_error)
        elif call is not None and call.answer is None:
            self._tool_use.end(call_id, worked=not is_error)
            call.answer, call.failed = self._spool.add(self._redactor.text(content)), is_error
        else:
            self._report.skipped["duplicate_result"] += 1

    def session(self, name: str, *, task_id: str | None = None, outcome: float | None = None) -> Session:
        """`name` tells this session from others of the same agent: an id, or a hash of the file."""
        layout = self._lay_out()
        if self.default_model:
            default = intern(self._redactor.text(self.default_model))
            for turn in layout.turns:
                turn.message.model = turn.message.model or default
        if self._early_results:
            self._report.skipped["result_without_call"] += len(self._early_results)
        self._report.redactions.update(self._redactor.counts)
        self._report.left_as_is.update(self._redactor.reported)
        return Session(
            name=name,
            source=Source(
                agent=self._redactor.text(self.agent),
                version=self._redactor.text(self.version) if self.version else None,
                file=self._file_name,
                licence=self._licence,
                subagent=self.is_subagent,
            ),
            fidelity="reconstructed" if self._system_is_ours and self.fidelity == "exact" else self.fidelity,
            spool=self._spool,
            system=self._system,
            messages=layout.messages,
            turns=layout.turns,
            segments=tuple(layout.segments),
            tools=self._tools or self._tool_use.inferred(),
            tools_inferred=not self._tools,
            system_is_ours=self._system_is_ours,
            task_id=self._redactor.text(task_id) if task_id else task_id,
            outcome=outcome,
        )

    def _lay_out(self) -> Layout:
        layout = Layout()
        awaits_summary: Restart | None = None
        for entry in self._entries:
            if awaits_summary and not isinstance(entry, Said):
                _restart(layout, awaits_summary)
                awaits_summary = None
            match entry:
                case Restart(summary_follows=True):
                    awaits_summary = entry
                case Restart():
                    _restart(layout, entry)
                case Rewind():
                    _rewind(layout, entry.to)
                case Clearing():
                    _clear(layout, entry.call_ids)
                case Said(dropped=True):
                    pass
                case Said():
                    self._place(layout, entry, 1)
                    if awaits_summary:
                        _restart(layout, awaits_summary, entry)
                        awaits_summary = None
                    layout.segment_of_said[entry.index] = len(layout.segments) - 1
                case AssistantTurn():
                    self._place(layout, entry, 1 + len(entry.calls))
                    segment = len(layout.segments) - 1
                    layout.turns.append(PlacedTurn(entry, segment, lacks_history=segment in layout.incomplete))
        return layout

    @staticmethod
    def _place(layout: Layout, entry: Said | AssistantTurn, length: int) -> None:
        entry.index = layout.length
        layout.messages.append(entry)
        layout.length += length


def _is_definition(definition: JsonObject) -> bool:
    """Later stages rely on a name, and on schemas that are objects."""
    function: Any = definition.get("function")
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        return False
    parameters: Any = function.get("parameters", {})
    return isinstance(parameters, dict) and isinstance(parameters.get("properties", {}), dict)


def _json_text(value: JsonObject) -> str | None:
    """None where a value is nested more deeply than encoders follow."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
    except orjson.JSONEncodeError:
        pass
    try:
        return canonical_json(value)
    except RecursionError:
        return None


def _indexes(entry: Said | AssistantTurn) -> range:
    if entry.index < 0:
        return range(0)
    return range(entry.index, entry.index + (1 + len(entry.calls) if isinstance(entry, AssistantTurn) else 1))


def _restart(layout: Layout, restart: Restart, *summary: Said) -> None:
    preserved = (0, *(index for entry in (*summary, *restart.kept) for index in _indexes(entry)))
    cleared = {index for segment in layout.segments for index in segment.cleared}.intersection(preserved)
    if restart.is_incomplete:
        layout.incomplete.add(len(layout.segments))
    layout.segments.append(Segment(start=layout.length, preserved=preserved, cleared=tuple(sorted(cleared))))


def _continue(layout: Layout, place: tuple[int, int], cleared: Sequence[int] = ()) -> None:
    if place[0] in layout.incomplete:
        layout.incomplete.add(len(layout.segments))
    layout.segments.append(Segment(start=layout.length, continues=place, cleared=tuple(cleared)))


def _rewind(layout: Layout, to: Said) -> None:
    if to.index < 0:
        return
    for turn in reversed(layout.turns):
        if turn.message.index < to.index:
            break
        turn.abandoned = True
    _continue(layout, (layout.segment_of_said[to.index], to.index))


def _clear(layout: Layout, call_ids: Sequence[str]) -> None:
    wanted = set(call_ids)
    cleared = [
        turn.message.index + 1 + position
        for turn in layout.turns
        for position, call in enumerate(turn.message.calls)
        if call.call_id in wanted
    ]
    _continue(layout, (len(layout.segments) - 1, layout.length), cleared)
