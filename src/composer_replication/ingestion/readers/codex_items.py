"""What the single items of a Codex rollout say: texts, calls, failures. No state.

Codex keeps no error flag with a tool's output. A failure shows in the fixed header that the harness puts before the
output, in the metadata of older versions, or in an event about the same call.
"""

from __future__ import annotations

import re
from typing import Any

from composer_replication.records import JsonObject, canonical_json

from .. import chat_messages
from ..dialogue import arguments_of
from ..documents import maybe_json
from ..values import as_int, as_list, as_name, as_object, as_objects, as_text

HEADER_CHARS = 400
_HEADER = re.compile(r"(?:Chunk ID: .*\n)?(?:Wall time: .*\n)?(?:Process exited with code|Exit code:) (-?\d{1,10})\n")
_SCRIPT_FAILED = re.compile(r"Script failed\nWall time ")

CONTEXT_PREFIXES = (
    "# AGENTS.md instructions", "<user_instructions>", "<environment_context>", "<skill>", "<user_shell_command>",
    "<turn_aborted>", "<subagent_notification>", "<codex_internal_context", "<goal_context>", "<recommended_plugins>",
    "<hook_prompt", "<external_", "Warning: The maximum number of unified exec", "Warning: apply_patch was requested",
    "Warning: Your account was flagged",
)  # fmt: skip
FAILED_STATUSES = ("failed", "declined")


def is_subagent(meta: JsonObject) -> bool:
    """Sessions that Codex started itself: spawned agents, reviews, the guardian, memory work."""
    source = as_object(meta.get("source"))
    return bool({"subagent", "sub_agent", "internal"} & source.keys()) or meta.get("thread_source") in (
        "subagent",
        "memory_consolidation",
    )


def is_context(role: str, content: Any) -> bool:
    """Whether the harness wrote this message, not the user."""
    texts = [as_text(part.get("text")).lstrip() for part in as_objects(content)]
    if role == "developer":
        return any(text.startswith(("<", "Approved command prefix saved")) for text in texts)
    return any(text.startswith(CONTEXT_PREFIXES) for text in texts)


def text_of(content: Any) -> str:
    """Text of a message or of a tool's output: a string, a list of parts, or an object around one of these."""
    return chat_messages.text_of(as_object(content).get("content") if isinstance(content, dict) else content)


def reasoning_of(item: JsonObject) -> list[str]:
    """The visible reasoning: summaries and, from open models, the reasoning itself."""
    parts = [*as_objects(item.get("summary")), *as_objects(item.get("content"))]
    return [text for part in parts if (text := as_text(part.get("text")))]


def call_of(item: JsonObject) -> tuple[str, str | JsonObject]:
    """Name and arguments of any of the six kinds of call."""
    match item.get("type"):
        case "custom_tool_call":
            return _full_name(item), {"input": text_of(item.get("input"))}
        case "local_shell_call":
            return "local_shell", as_object(item.get("action"))
        case "web_search_call":
            return "web_search", as_object(item.get("action"))
        case "image_generation_call":
            return "image_generation", {"prompt": as_text(item.get("revised_prompt"))}
        case "tool_search_call":
            return "tool_search", arguments_of(item.get("arguments"))
        case _:
            return _full_name(item), arguments_of(item.get("arguments"))


def _full_name(item: JsonObject) -> str:
    name, namespace = as_text(item.get("name")), as_name(item.get("namespace"))
    return f"{namespace.rstrip('_')}__{name}" if namespace else name


def output_of(item: JsonObject) -> str:
    if item.get("type") == "tool_search_output":
        return canonical_json(as_list(item.get("tools")))
    return text_of(item.get("output"))


def output_failed(item: JsonObject, text: str) -> bool | None:
    """What the output itself says about failure; None where it says nothing."""
    if header := _HEADER.match(text[:HEADER_CHARS]):
        return int(header[1]) != 0
    if _SCRIPT_FAILED.match(text):
        return True
    if text.startswith('{"output":'):
        code = as_int(as_object(as_object(maybe_json(text)).get("metadata")).get("exit_code"))
        return None if code is None else code != 0
    return True if as_object(item.get("output")).get("success") is False else None


def event_failed(event: JsonObject) -> bool:
    """Whether an event about a call, or the item of a newer version, says that the call failed."""
    result = as_object(event.get("result"))
    answer = as_object(result.get("Ok", result))
    return (
        event.get("success") is False
        or event.get("status") in FAILED_STATUSES
        or (as_int(event.get("exit_code")) or 0) != 0
        or "Err" in result
        or answer.get("isError") is True
        or answer.get("is_error") is True
    )
