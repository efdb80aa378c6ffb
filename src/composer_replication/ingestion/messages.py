"""Chat messages of agents that write calls as OpenAI tool calls, as XML tags or as code blocks: the shared parts.

`Dialogue` keeps what the actor will see next, so that an attempt which the harness asked to repeat, and then took out
of the history, is a turn of its own without showing up in the turns after it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, cast

from composer_replication.records import JsonObject, canonical_json

from .conversation import Conversation
from .reading import Document, InputFile, parse_json
from .session import AssistantTurn, Said, Session
from .values import as_list, as_name, as_object, as_text, placeholder

_RUN_KEYS = frozenset({"messages", "trajectory", "history", "steps", "attempts"})
TEXT_PARTS = ("text", "input_text", "output_text")
FUNCTION = re.compile(r"<function=([^>\n]+)>")
PARAMETER = re.compile(r"<parameter=([^>\n]+)>")
FENCE = re.compile(r"^```(\S*)[ \t]*$", re.MULTILINE)


Make = Callable[[Document, Any], Iterator[Session]]


def read_runs(file: InputFile, make: Make) -> Iterator[Session]:
    """The sessions of each document; a list of objects that hold messages is a list of documents."""
    for document in file.documents():
        rows = as_list(document.value)
        for run in rows if any(_RUN_KEYS & as_object(row).keys() for row in rows) else [document.value]:
            try:
                found = list(make(document, run))
            except RecursionError:
                file.quarantine(document.start, "nested too deeply")
                continue
            for session in found:
                if session.turns:
                    yield session
                else:
                    file.report.skipped["session_without_turns"] += 1


class WrittenCall(NamedTuple):
    name: str
    arguments: str | JsonObject


class Dialogue:
    """Puts the messages of one document into a conversation."""

    def __init__(self, conversation: Conversation, document: Document) -> None:
        self.conversation = conversation
        self._range = (document.start, document.end)
        self._context: list[Said | AssistantTurn] = []
        self._forgot = False
        self._keys: set[str] = set()
        self._has_system = False
        self._turns = 0
        self._calls = 0
        self._ids: dict[str, str] = {}
        self._open: list[str] = []

    def system(self, text: str) -> None:
        if self._has_system:
            self.say(text)
        else:
            self._has_system = True
            self.conversation.system(text)

    def say(self, text: str, role: str = "user") -> Said:
        said = self.conversation.say(text, role)
        self._context.append(said)
        return said

    def restart(self) -> None:
        """The harness replaced the history: the next turn sees what is said from here on."""
        self._context.clear()
        self._forgot = False
        self.conversation.restart()

    def turn(self, key: str | None, model: str | None) -> AssistantTurn:
        """A new turn, even where a cache served one response twice."""
        if self._forgot:
            self.conversation.restart(self._context.copy())
            self._forgot = False
        if key in self._keys:
            key = None
        if key:
            self._keys.add(key)
        turn, _ = self.conversation.turn(key, model, *self._range)
        self._context.append(turn)
        self._turns += 1
        self._open.clear()
        return turn

    def call(self, turn: AssistantTurn, recorded_id: str | None, written: WrittenCall) -> str:
        """Returns the id in the trace: another one than recorded where a server numbers calls anew per response."""
        call_id = recorded_id or f"{self._turns}/{len(turn.calls)}"
        if call_id in self._ids:
            call_id = f"{call_id}/{self._calls}"
        self._calls += 1
        self._ids[recorded_id or call_id] = self._ids[call_id] = call_id
        self._open.append(call_id)
        self.conversation.call(turn, call_id, *written)
        return call_id

    def answer(self, recorded_id: str, text: str, is_error: bool = False) -> str:
        call_id = self._ids.get(recorded_id, recorded_id)
        if call_id in self._open:
            self._open.remove(call_id)
        self.conversation.result(call_id, text, is_error)
        return call_id

    def answer_open_call(self, text: str, is_error: bool = False) -> str | None:
        """The result of the oldest call of the last turn that has none; without such a call the text is context."""
        if self._open:
            return self.answer(self._open[0], text, is_error)
        self.say(text)
        return None

    def forget(self, entries: Sequence[Said | AssistantTurn]) -> None:
        """The harness took these out of the history: later turns do not see them."""
        gone = {id(entry) for entry in entries}
        self._context = [entry for entry in self._context if id(entry) not in gone]
        self._forgot = self._forgot or bool(gone)


def text_of(content: Any) -> str:
    """Text of a message: a string or a list of parts. A part that is not text becomes a placeholder."""
    if isinstance(content, str):
        return content
    return "\n".join(_part_text(part) for part in as_list(content))


def _part_text(part: Any) -> str:
    if isinstance(part, str):
        return part
    fields = as_object(part)
    if isinstance(text := fields.get("text"), str) and fields.get("type") in TEXT_PARTS:
        return text
    return placeholder(label(fields.get("type")), dumped(part))


def recorded_calls(message: JsonObject) -> list[tuple[str | None, WrittenCall]]:
    """The OpenAI tool calls of a message with their ids."""
    calls: list[tuple[str | None, WrittenCall]] = []
    for item in as_list(message.get("tool_calls")):
        fields = as_object(item)
        function = as_object(fields.get("function"))
        if fields:
            written = WrittenCall(as_text(function.get("name")), arguments_of(function.get("arguments")))
            calls.append((as_name(fields.get("id")), written))
    return calls


def arguments_of(value: Any) -> str | JsonObject:
    """Arguments as an object, or what the model wrote where that is not one."""
    if isinstance(value, dict):
        return cast(JsonObject, value)
    if not isinstance(value, str):
        return {} if value is None else dumped(value)
    try:
        parsed = parse_json(value.encode("utf-8", "replace"))
    except ValueError:
        return value
    return cast(JsonObject, parsed) if isinstance(parsed, dict) else value


def thinking_of(message: JsonObject) -> str:
    """Visible reasoning beside the text: Anthropic's blocks, or the field of other providers."""
    blocks = [as_text(as_object(block).get("thinking")) for block in as_list(message.get("thinking_blocks"))]
    return "\n\n".join(filter(None, blocks)) or as_text(message.get("reasoning_content"))


def label(value: Any) -> str:
    """A kind for reports: the string, or the type of what stands in its place."""
    return value if isinstance(value, str) else type(value).__name__


def dumped(value: Any) -> str:
    try:
        return canonical_json(value)
    except RecursionError:
        return "[nested too deeply]"


def function_tags(text: str) -> tuple[str, list[WrittenCall]]:
    """Calls written as `<function=name><parameter=key>value</parameter></function>`, and the text without them.

    A call ends at the first closing tag outside a parameter, because file contents may hold such tags too.
    """
    calls: list[WrittenCall] = []
    kept: list[str] = []
    at = 0
    while (opening := FUNCTION.search(text, at)) and (end := _end_of_call(text, opening.end())) is not None:
        kept.append(text[at : opening.start()])
        calls.append(WrittenCall(opening.group(1).strip(), _parameters(text[opening.end() : end])))
        at = end + len("</function>")
    return "".join([*kept, text[at:]]).strip() if calls else text, calls


def _end_of_call(text: str, start: int) -> int | None:
    opened, at = 0, start
    while (end := text.find("</function>", at)) >= 0:
        opened += text.count("<parameter=", at, end) - text.count("</parameter>", at, end)
        if opened <= 0:
            return end
        at = end + 1
    return None


def _parameters(body: str) -> JsonObject:
    _, *pieces = PARAMETER.split(body)
    values = (piece.rpartition("</parameter>")[0] for piece in pieces[1::2])
    return {key.strip(): _unwrapped(value) for key, value in zip(pieces[::2], values, strict=True)}


def _unwrapped(value: str) -> str:
    return value.removeprefix("\n").removesuffix("\n")


def last_block(text: str) -> tuple[str, str] | None:
    """The last code block outside other blocks, as the text without it and its content."""
    depth: list[re.Match[str]] = []
    last: tuple[int, int, int, int] | None = None
    for fence in FENCE.finditer(text):
        if fence.group(1) or not depth:
            depth.append(fence)
            continue
        opening = depth.pop()
        if not depth:
            last = (opening.start(), opening.end(), fence.start(), fence.end())
    if last is None:
        return None
    return (text[: last[0]] + text[last[3] :]).strip(), text[last[1] : last[2]].strip("\n")


def outcome_of(value: Any) -> float | None:
    """A reward, or whether the task was solved."""
    return float(value) if isinstance(value, bool | int | float) and math.isfinite(value) else None
