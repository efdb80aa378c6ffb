"""SWE-smith trajectories: rows of the dataset SWE-bench/SWE-smith-trajectories, as JSON or JSON lines.

`messages` is a list, or a JSON string in newer splits. The splits differ in how calls are written: tool calls
(`tool`), `<function=…>` tags (`xml`) or one code block (`ticks`); in the last two an observation is a user message.
`resolved` is the outcome. The tools themselves are described in the system prompt only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from composer_replication.records import JsonObject, content_id

from .conversation import Conversation
from .messages import (
    Dialogue,
    WrittenCall,
    function_tags,
    label,
    last_block,
    outcome_of,
    read_runs,
    recorded_calls,
    text_of,
    thinking_of,
)
from .reading import Document, InputFile, parse_json
from .session import Session
from .values import as_list, as_name, as_object, as_objects

AGENT = "swe_smith"


def recognises(value: Any) -> bool:
    row = as_object(value)
    return all(isinstance(row.get(key), str) for key in ("traj_id", "instance_id")) and (
        isinstance(row.get("messages"), list | str)
    )


def read(file: InputFile) -> Iterator[Session]:
    def sessions(document: Document, row: Any) -> Iterator[Session]:
        yield _session(file, document, as_object(row))

    return read_runs(file, sessions)


def _session(file: InputFile, document: Document, row: JsonObject) -> Session:
    messages = _messages(row.get("messages"))
    style = _style(messages)
    conversation = Conversation(file, AGENT, "exact" if style == "tool" else "reconstructed")
    dialogue = Dialogue(conversation, document)
    model = as_name(row.get("model"))
    for message in messages:
        text = text_of(message.get("content"))
        match message.get("role"):
            case "system":
                dialogue.system(text)
            case "assistant":
                turn = dialogue.turn(None, model)
                conversation.add_thinking(turn, thinking_of(message))
                rest, calls = _calls(message, text, style)
                conversation.add_text(turn, rest)
                for call_id, written in calls:
                    dialogue.call(turn, call_id, written)
            case "tool":
                ids = [*as_list(message.get("tool_call_ids")), message.get("tool_call_id")]
                known = [call_id for call_id in ids if isinstance(call_id, str)]
                for call_id in known:
                    dialogue.answer(call_id, text)
                if not known:
                    dialogue.answer_open_call(text)
            case "user" if style == "tool":
                dialogue.say(text)
            case "user":
                dialogue.answer_open_call(text)
            case role:
                file.report.meet_unknown(None, f"role/{label(role)}")
    name = as_name(row.get("traj_id")) or "row"
    texts = [[label(message.get("role")), text_of(message.get("content"))] for message in messages]
    # One run appears in each split, written in another style: the texts tell them apart.
    return conversation.session(
        f"{name}/{content_id(texts)}",
        task_id=as_name(row.get("instance_id")),
        outcome=outcome_of(row.get("resolved")),
    )


def _messages(value: Any) -> list[JsonObject]:
    if isinstance(value, str):
        try:
            value = parse_json(value.encode("utf-8", "replace"))
        except ValueError:
            return []
    return as_objects(value)


def _style(messages: Sequence[JsonObject]) -> str:
    said = [message for message in messages if message.get("role") == "assistant"]
    if any(message.get("tool_calls") for message in said):
        return "tool"
    return "xml" if any("<function=" in text_of(message.get("content")) for message in said) else "ticks"


def _calls(message: JsonObject, text: str, style: str) -> tuple[str, list[tuple[str | None, WrittenCall]]]:
    if style == "tool":
        return text, recorded_calls(message)
    if style == "xml":
        rest, written = function_tags(text)
        return rest, [(None, call) for call in written]
    found = last_block(text)
    return (found[0], [(None, WrittenCall("bash", {"command": found[1]}))]) if found else (text, [])
