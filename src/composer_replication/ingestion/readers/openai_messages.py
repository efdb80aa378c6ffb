"""Plain OpenAI chat messages, the fallback for tables of conversations: `{"messages": […], "tools"?: […], …}` rows.

Rows come as JSON, as a list of rows, as JSON lines or as a table; also bare lists of messages, and TRL's conversational
`{"prompt": […], "completion": […]}`. SWE-Gym's rows add `instance_id`, `run_id`, `resolved` and `test_result`. A file
is one of these only when it has no mark of another format that stores messages. Lost: reasoning that was not kept,
failure flags of results, and the times of everything. Where no system message is recorded ours takes its place.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from composer_replication.records import JsonObject, content_id

from ..chat_messages import openai_tools, take_apart, text_of
from ..conversation import Conversation
from ..dialogue import Dialogue
from ..documents import maybe_json, model_of_run, outcome_of, read_rows
from ..reading import Document, InputFile, ReadingReport
from ..session import Session
from ..values import as_list, as_name, as_object, as_objects
from ..written_calls import results_in

AGENT = "messages"
ROLES = frozenset({"system", "developer", "user", "assistant", "tool", "function"})
FOREIGN_ROW_KEYS = frozenset({
    "trajectory_format", "traj_id", "sessionId", "session_id", "system_prompt", "response", "history", "trajectory",
    "info", "kind", "class_", "uuid", "schema_version", "environment",
})  # fmt: skip
FOREIGN_MESSAGE_KEYS = frozenset({"message_type", "extra", "ts", "parts", "info", "is_demo", "uuid", "toolCalls"})
FOREIGN_PARTS = frozenset({"tool_use", "tool_result", "tool-call", "tool-result"})
LOOKED_AT = 8
OUTCOMES = ("resolved", "reward", "score")


def recognises(value: Any) -> bool:
    if isinstance(value, list):
        return _is_chat(cast(list[Any], value))
    row = as_object(value)
    if not FOREIGN_ROW_KEYS.isdisjoint(row) or {"instance_id", "model", "patch"} <= row.keys():
        return False
    return _is_chat(_messages(row))


def read(file: InputFile) -> Iterator[Session]:
    return read_rows(file, _session, _rows)


def _rows(value: Any) -> Iterator[JsonObject]:
    """The rows of a document; a bare list of messages is one row."""
    items = as_list(value)
    if not items:
        yield as_object(value)
    elif as_name(as_object(items[0]).get("role")):
        yield {"messages": items}
    else:
        for item in items:
            yield as_object(item) or {"messages": as_list(item)}


def _session(file: InputFile, document: Document) -> Iterator[Session]:
    row = as_object(document.value)
    conversation = Conversation(file, AGENT, fidelity="exact")
    conversation.tools(openai_tools(row.get("tools")))
    chat = Chat(conversation, file.report, document)
    messages = file.report.objects(_messages(row))
    model = as_name(row.get("model")) or model_of_run(row.get("run_id"))
    for message in messages:
        chat.add(message, model)
    yield conversation.session(
        content_id(row.get("run_id"), messages), task_id=as_name(row.get("instance_id")), outcome=_outcome(row)
    )


class Chat:
    """Adds messages one after the other. A system message at the start is the system prompt."""

    def __init__(self, conversation: Conversation, report: ReadingReport, document: Document) -> None:
        self._report = report
        self._dialogue = Dialogue(conversation, document)
        self._begun = False
        self._calls_are_text = False

    def add(self, message: JsonObject, model: str | None = None, key: str | None = None) -> None:
        text = text_of(message.get("content"))
        match message.get("role"):
            case "system" | "developer" if not self._begun:
                self._dialogue.system(text)
            case "system" | "developer":
                self._say(text, "system")
            case "user":
                results = results_in(text) if self._calls_are_text else []
                for result in results:
                    self._dialogue.answer_or_say(result)
                if not results:
                    self._say(text, "user")
            case "assistant":
                reply = take_apart(message)
                self._calls_are_text = reply.calls_are_text
                self._dialogue.turn(key, model, reply)
            case "tool" | "function":
                self._add_result(message, text)
            case role:
                self._report.meet_unknown(None, f"role/{role}")
        self._begun = True

    def _say(self, text: str, role: str) -> None:
        if text.strip():
            self._dialogue.say(text, role)

    def _add_result(self, message: JsonObject, text: str) -> None:
        results = results_in(text) if self._calls_are_text else []
        answer = results[0] if len(results) == 1 else text
        call_id = as_name(message.get("tool_call_id"))
        if self._dialogue.answer(call_id, answer, message.get("is_error") is True) is None:
            self._report.skipped["result_without_call"] += 1


def _messages(row: JsonObject) -> list[Any]:
    if "messages" in row:
        return _parsed(maybe_json(row["messages"]))
    prompt, completion = _parsed(row.get("prompt")), _parsed(row.get("completion"))
    return [*prompt, *completion] if prompt and completion else []


def _parsed(messages: Any) -> list[Any]:
    """The `Json` type of `datasets` keeps each message as text."""
    return [maybe_json(message) if isinstance(message, str) else message for message in as_list(messages)]


def _outcome(row: JsonObject) -> float | None:
    report = as_object(as_object(row.get("test_result")).get("report"))
    return outcome_of(*map(row.get, OUTCOMES), report.get("resolved"))


def _is_chat(messages: list[Any]) -> bool:
    """Whether a list can be a conversation with at least one reply."""
    return (
        bool(messages)
        and all(map(_is_message, messages[:LOOKED_AT]))
        and any(as_object(message).get("role") == "assistant" for message in messages)
    )


def _is_message(value: Any) -> bool:
    message = as_object(value)
    role, content = message.get("role"), message.get("content")
    if not isinstance(role, str) or role not in ROLES or not FOREIGN_MESSAGE_KEYS.isdisjoint(message):
        return False
    if isinstance(content, list):
        kinds = {as_name(part.get("type")) for part in as_objects(cast(list[Any], content))}
        return kinds.isdisjoint(FOREIGN_PARTS)
    return isinstance(content, str) or bool(message.get("tool_calls") or message.get("function_call"))
