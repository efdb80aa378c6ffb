"""OpenAI chat messages into a conversation: what the readers of formats that store them share."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple, cast

from composer_replication.records import JsonObject

from .chat_markup import cut_calls, cut_thinking, results_in
from .conversation import Conversation
from .reading import Report, parse_json
from .session import AssistantTurn
from .values import as_list, as_name, as_object, as_objects, as_text, placeholder

THINKING_FIELDS = ("reasoning_content", "reasoning", "thinking")
THINKING_PARTS = frozenset({"thinking", "reasoning"})
MAX_SCHEMA_DEPTH = 60
OPENHANDS_RUN = re.compile(r"(.+?)_maxiter_\d+")


class Place(NamedTuple):
    """Bytes of the file."""

    start: int
    end: int


class ParsedCall(NamedTuple):
    call_id: str | None
    name: str
    arguments: str | JsonObject


class Parts(NamedTuple):
    """An assistant message taken apart."""

    text: str
    thinking: str
    calls: list[ParsedCall]


class CallIds:
    """Ids that are unique in a conversation, for files where each turn counts its calls from zero."""

    def __init__(self) -> None:
        self._used: set[str] = set()
        self._latest: dict[str, str] = {}
        self._open: list[str] = []

    def begin(self, recorded: str | None, made_up: str) -> str:
        call_id = recorded if recorded and recorded not in self._used else f"{recorded or 'call'}/{made_up}"
        self._used.add(call_id)
        self._latest[recorded or call_id] = call_id
        self._open.append(call_id)
        return call_id

    def find(self, recorded: str) -> str:
        return self._latest.get(recorded, recorded)

    def end(self, recorded: str | None) -> str | None:
        """The call that a result belongs to; one without an id belongs to the first call that waits."""
        call_id = self.find(recorded) if recorded else next(iter(self._open), None)
        if call_id in self._open:
            self._open.remove(call_id)
        return call_id

    def forget_open(self) -> None:
        """A new turn begins: results without an id belong to its calls."""
        self._open.clear()


class Chat:
    """Adds messages one after the other. A system message at the start is the system prompt."""

    def __init__(self, conversation: Conversation, report: Report, place: Place) -> None:
        self._conversation = conversation
        self._report = report
        self._place = place
        self._ids = CallIds()
        self._count = 0
        self._calls_are_text = False
        self.has_system = False

    def add(self, message: JsonObject, model: str | None = None, key: str | None = None) -> None:
        self._count += 1
        match message.get("role"):
            case "system" | "developer":
                self._add_system(flatten(message.get("content")))
            case "user":
                self._add_user(flatten(message.get("content")))
            case "assistant":
                self._add_assistant(take_apart(message), model, key)
            case "tool" | "function":
                self._add_result(message)
            case role:
                self._report.meet_unknown(None, f"role/{role}")

    def _add_system(self, text: str) -> None:
        if self._count == 1:
            self.has_system = True
            self._conversation.system(text)
        elif text.strip():
            self._conversation.say(text, role="system")

    def _add_user(self, text: str) -> None:
        results = results_in(text) if self._calls_are_text else []
        for result in results:
            if call_id := self._ids.end(None):
                self._conversation.result(call_id, result)
            else:
                self._conversation.say(result)
        if not results and text.strip():
            self._conversation.say(text)

    def _add_assistant(self, parts: Parts, model: str | None, key: str | None) -> None:
        turn, _ = self._conversation.turn(key, model, *self._place)
        self._ids.forget_open()
        self._calls_are_text = any(call.call_id is None for call in parts.calls)
        add_parts(self._conversation, turn, parts, self._ids, str(self._count))

    def _add_result(self, message: JsonObject) -> None:
        text = flatten(message.get("content"))
        call_id = self._ids.end(as_name(message.get("tool_call_id")))
        if call_id is None:
            self._report.skipped["result_without_call"] += 1
            return
        responses = results_in(text) if self._calls_are_text else []
        self._conversation.result(
            call_id, responses[0] if len(responses) == 1 else text, message.get("is_error") is True
        )


def add_parts(conversation: Conversation, turn: AssistantTurn, parts: Parts, ids: CallIds, number: str) -> None:
    conversation.add_thinking(turn, parts.thinking)
    conversation.add_text(turn, parts.text)
    for position, call in enumerate(parts.calls):
        conversation.call(turn, ids.begin(call.call_id, f"{number}/{position}"), call.name, call.arguments)


def take_apart(message: JsonObject) -> Parts:
    """Calls in fields count; only where there is none are calls looked for in the text."""
    content = message.get("content")
    inline, text = cut_thinking(flatten(content))
    thinking = next((value for name in THINKING_FIELDS if (value := flatten(message.get(name))).strip()), "")
    blocks = [*as_list(content), *as_list(message.get("thinking_blocks"))]
    thinking = thinking or "\n\n".join(filter(None, map(_thinking_text, as_objects(blocks)))) or inline
    calls = list(_calls(message))
    if not calls:
        text, found = cut_calls(text)
        calls = [ParsedCall(None, call.name, call.arguments) for call in found]
    return Parts(text, thinking, calls)


def flatten(content: Any) -> str:
    """The text of a message. Images and the like leave a placeholder; reasoning is not part of the text."""
    if isinstance(content, str):
        return content
    return "\n".join(text for part in as_list(content) if (text := _part_text(part)) is not None)


def openai_tools(value: Any) -> list[JsonObject]:
    """Tool definitions in OpenAI's form, also where they are a JSON string or lack the outer object."""
    found = [as_object(tool.get("function")) or tool for tool in as_objects(maybe_json(value))]
    named = [tool for tool in found if as_name(tool.get("name")) and ("parameters" in tool or len(tool) < 4)]
    return [{"type": "function", "function": _clean(tool)} for tool in named if _is_shallow(tool, MAX_SCHEMA_DEPTH)]


def maybe_json(value: Any) -> Any:
    """Some tables hold nested values as JSON text."""
    if not isinstance(value, str):
        return value
    try:
        return parse_json(value.encode("utf-8", "replace"))
    except ValueError:
        return None


def as_outcome(value: Any) -> float | None:
    """A reward: a number, or 1 and 0 for true and false, also where a table made strings of them."""
    if isinstance(value, str):
        return {"true": 1.0, "false": 0.0}.get(value.lower())
    return float(value) if isinstance(value, bool | int | float) else None


def model_of_run(run_id: Any) -> str | None:
    """OpenHands' evaluation names a run after its model."""
    run = OPENHANDS_RUN.match(as_text(run_id))
    return run.group(1) if run else None


def _calls(message: JsonObject) -> Iterator[ParsedCall]:
    for call in as_objects(message.get("tool_calls")):
        function = as_object(call.get("function")) or call
        if name := as_name(function.get("name")):
            yield ParsedCall(as_name(call.get("id")), name, _arguments(function.get("arguments")))
    legacy = as_object(message.get("function_call"))
    if (name := as_name(legacy.get("name"))) and not message.get("tool_calls"):
        yield ParsedCall(None, name, _arguments(legacy.get("arguments")))


def _arguments(value: Any) -> str | JsonObject:
    """Tables pad the objects of a column with nulls, so a null argument is one that was not given."""
    if isinstance(value, str):
        return value
    return {key: item for key, item in as_object(value).items() if item is not None}


def _part_text(part: Any) -> str | None:
    if not isinstance(part, dict):
        return part if isinstance(part, str) else None
    fields = cast(JsonObject, part)
    kind = as_name(fields.get("type"))
    if kind in THINKING_PARTS:
        return None
    text = fields.get("text", fields.get("refusal"))
    return text if isinstance(text, str) else placeholder(kind, fields)


def _thinking_text(part: JsonObject) -> str:
    if as_name(part.get("type")) not in THINKING_PARTS:
        return ""
    return as_text(part.get("thinking")) or as_text(part.get("reasoning")) or as_text(part.get("text"))


def _clean(value: Any) -> Any:
    """A schema without the nulls of padded tables."""
    if isinstance(value, dict):
        fields = cast(JsonObject, value)
        return {key: _clean(item) for key, item in fields.items() if item is not None}
    return [_clean(item) for item in as_list(value)] if isinstance(value, list) else value


def _is_shallow(value: Any, depth: int) -> bool:
    if depth == 0:
        return False
    items = cast(JsonObject, value).values() if isinstance(value, dict) else as_list(value)
    return all(_is_shallow(item, depth - 1) for item in items)
