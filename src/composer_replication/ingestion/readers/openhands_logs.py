"""Logs of single LLM calls that OpenHands writes on request: `{messages, tools, kwargs, response, …}`, one per file.

A log holds the prompt of one call as it was sent, so it is exact. The next log repeats it; a turn's key is a hash of
all that came before it, so that the same turn in several logs counts once. Where the model had no native tool calls,
the messages before their translation to text are used (`raw_messages`, before 1.0 `fncall_messages`). Logs of calls by
others than the agent, and those of the Responses API, are left out and counted.
"""

from __future__ import annotations

from collections.abc import Iterator

from composer_replication.records import JsonObject, content_id

from ..chat_messages import openai_tools, take_apart
from ..conversation import Conversation
from ..reading import Document, InputFile
from ..session import Session
from ..values import as_list, as_name, as_object, as_objects
from .openai_messages import Chat

AGENT = "openhands"


def is_log(record: JsonObject) -> bool:
    prompt = record.get("messages", record.get("input"))
    timed = "latency_sec" in record or "timestamp" in record
    return isinstance(prompt, list) and timed and "kwargs" in record and ("response" in record or "error" in record)


def read_log(file: InputFile, document: Document) -> Iterator[Session]:
    log = as_object(document.value)
    translated = log.get("raw_messages", log.get("fncall_messages"))
    messages = file.report.objects(translated if isinstance(translated, list) else log.get("messages"))
    response = as_object(log.get("fncall_response") or log.get("response"))
    choices = as_objects(response.get("choices"))
    tools = log.get("tools") or as_object(log.get("kwargs")).get("tools")
    if not choices or not messages:
        file.report.skip("log", "responses_api" if "input" in log else "without_response")
        return
    if not tools and translated is None:
        # The condenser, titles and critics call models too; only the agent has tools.
        file.report.skip("log", "without_tools")
        return
    conversation = Conversation(file, AGENT, "exact" if translated is None else "reconstructed")
    conversation.tools(openai_tools(tools))
    conversation.version = _version(log)
    chat = Chat(conversation, file.report, document)
    key, model = "", as_name(response.get("model"))
    for message in [*messages, {"role": "assistant", **as_object(choices[0].get("message"))}]:
        text, _, calls = take_apart(message)
        key = content_id(key, message.get("role"), message.get("tool_call_id"), text.strip(), calls)
        chat.add(message, model, key)
    yield conversation.session(as_name(response.get("id")) or key)


def _version(log: JsonObject) -> str | None:
    metadata = as_object(as_object(as_object(log.get("kwargs")).get("extra_body")).get("metadata"))
    tags = [tag for tag in as_list(metadata.get("tags")) if isinstance(tag, str)]
    return next((tag.partition(":")[2] for tag in tags if tag.startswith("openhands_version:")), None)
