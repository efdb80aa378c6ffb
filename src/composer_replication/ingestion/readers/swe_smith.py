"""SWE-smith trajectories: rows of the dataset SWE-bench/SWE-smith-trajectories, as JSON or JSON lines.

`messages` is a list, or a JSON string in newer splits. The splits differ in how calls are written: tool calls
(`tool`), `<function=…>` tags (`xml`) or one code block (`ticks`); in the last two an observation is a user message.
`resolved` is the outcome. The tools themselves are described in the system prompt only. Tables that SWE-smith makes for
fine-tuning (`ft_xml_*.jsonl`) hold messages and `instance_id` only; the observations in them give them away.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from composer_replication.records import JsonObject, content_id

from ..chat_messages import roles_and_texts, take_apart, text_of
from ..conversation import Conversation
from ..dialogue import Dialogue
from ..documents import maybe_json, outcome_of, read_rows
from ..reading import Document, InputFile
from ..session import Session
from ..values import as_list, as_name, as_object, as_objects, label
from ..written_calls import OBSERVATION, cut_calls, cut_command

AGENT = "swe_smith"


def recognises(value: Any) -> bool:
    row = as_object(value)
    if not isinstance(row.get("instance_id"), str) or not isinstance(row.get("messages"), list | str):
        return False
    return isinstance(row.get("traj_id"), str) or _has_observations(as_objects(maybe_json(row["messages"])))


def _has_observations(messages: Sequence[JsonObject]) -> bool:
    return any(
        message.get("role") == "user" and text_of(message.get("content")).startswith(OBSERVATION)
        for message in messages
    )


def read(file: InputFile) -> Iterator[Session]:
    return read_rows(file, _session)


def _session(file: InputFile, document: Document) -> Iterator[Session]:
    row = as_object(document.value)
    messages = file.report.objects(maybe_json(row.get("messages")))
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
                dialogue.turn(None, model, take_apart(message, cut_command if style == "ticks" else cut_calls))
            case "tool":
                ids = [*as_list(message.get("tool_call_ids")), message.get("tool_call_id")]
                known = [call_id for call_id in ids if isinstance(call_id, str)]
                for call_id in known:
                    dialogue.answer(call_id, text)
                if not known:
                    dialogue.answer_or_say(text)
            case "user" if style == "tool":
                dialogue.say(text)
            case "user":
                dialogue.answer_or_say(text)
            case role:
                file.report.meet_unknown(None, f"role/{label(role)}")
    name = as_name(row.get("traj_id")) or as_name(row.get("instance_id")) or "row"
    # One run appears in each split, written in another style: the texts tell them apart.
    yield conversation.session(
        f"{name}/{content_id(roles_and_texts(messages))}",
        task_id=as_name(row.get("instance_id")),
        outcome=outcome_of(row.get("resolved")),
    )


def _style(messages: Sequence[JsonObject]) -> str:
    said = [message for message in messages if message.get("role") == "assistant"]
    if any(message.get("tool_calls") for message in said):
        return "tool"
    return "xml" if any("<function=" in text_of(message.get("content")) for message in said) else "ticks"
