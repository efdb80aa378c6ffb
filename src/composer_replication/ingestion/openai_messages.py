"""Plain OpenAI chat messages, the fallback for tables of conversations: `{"messages": […], "tools"?: […], …}` rows.

Rows come as JSON, as a list of rows, or as JSON lines; also bare lists of messages, and TRL's conversational
`{"prompt": […], "completion": […]}`. SWE-Gym's rows add `instance_id`, `run_id`, `resolved` and `test_result`. A file
is one of these only when it has no mark of another format that stores messages. Lost: reasoning that was not kept,
failure flags of results, and the times of everything. Where no system message is recorded ours takes its place.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from composer_replication.records import JsonObject, content_id

from .chat import Chat, Place, as_outcome, maybe_json, model_of_run, openai_tools
from .conversation import Conversation
from .reading import Document, InputFile
from .session import Session
from .values import as_list, as_name, as_object, as_objects

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
    for document in file.documents():
        for row in _rows(document.value):
            try:
                session = _session(file, row, document)
            except RecursionError:
                file.quarantine(document.start, "nested too deeply")
                continue
            if session.turns:
                yield session
            else:
                file.report.skipped["session_without_turns"] += 1


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


def _session(file: InputFile, row: JsonObject, document: Document) -> Session:
    conversation = Conversation(file, AGENT, fidelity="exact")
    conversation.tools(openai_tools(row.get("tools")))
    chat = Chat(conversation, file.report, Place(document.start, document.end))
    messages = as_objects(_messages(row))
    model = as_name(row.get("model")) or model_of_run(row.get("run_id"))
    for message in messages:
        chat.add(message, model)
    if not chat.has_system:
        conversation.fidelity = "reconstructed"
    return conversation.session(
        content_id(row.get("run_id"), messages), task_id=as_name(row.get("instance_id")), outcome=_outcome(row)
    )


def _messages(row: JsonObject) -> list[Any]:
    if "messages" in row:
        return as_list(maybe_json(row["messages"]))
    prompt, completion = as_list(row.get("prompt")), as_list(row.get("completion"))
    return [*prompt, *completion] if prompt and completion else []


def _outcome(row: JsonObject) -> float | None:
    report = as_object(as_object(row.get("test_result")).get("report"))
    values = [as_outcome(row.get(name)) for name in OUTCOMES] + [as_outcome(report.get("resolved"))]
    return next((value for value in values if value is not None), None)


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
