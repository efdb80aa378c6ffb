"""Context that the harness shows to the model beside the conversation: Claude Code's attachments.

Newer versions record the text as it was sent (`rendered`). For older ones it is put together here from the fields that
carry content; the harness's own wording around them is not recorded. Everything else is bookkeeping.
"""

from __future__ import annotations

from typing import Any

from composer_replication.records import JsonObject

from ..values import as_int, as_list, as_object, as_objects, as_text
from .claude_code_lines import Attachment, loads

OPENING = "<system-reminder>"
CLOSING = "</system-reminder>"
EVENTS_WITH_CONTEXT = frozenset({"SessionStart", "UserPromptSubmit"})
"""What a hook prints at these is for the model; at others it goes to the screen."""


def reminder(attachment: Attachment) -> str | None:
    """What the model saw of an attachment, or None if it saw nothing."""
    rendered = [_text_of(part) for part in as_list(loads(attachment.rendered))]
    text = "\n".join(filter(None, rendered)) or _rebuilt(attachment)
    if not text.strip():
        return None
    return text if OPENING in text else f"{OPENING}\n{text.strip()}\n{CLOSING}"


def _rebuilt(attachment: Attachment) -> str:
    match attachment.type:
        case "hook_additional_context" | "skill_listing" | "invoked_skills" | "directory":
            return _text_of(loads(attachment.content))
        case "hook_success" if attachment.hookEvent in EVENTS_WITH_CONTEXT:
            return _text_of(loads(attachment.content))
        case "diagnostics":
            return "\n".join(map(_diagnosed, as_objects(loads(attachment.files))))
        case "nested_memory":
            return _text_of(as_object(loads(attachment.content)).get("content"))
        case "file":
            held = as_object(as_object(loads(attachment.content)).get("file"))
            return f"{as_text(loads(attachment.filename))}\n{_text_of(held.get('content'))}"
        case "edited_text_file":
            return f"{as_text(loads(attachment.filename))} was changed:\n{as_text(loads(attachment.snippet))}"
        case "agent_listing_delta":
            return _text_of(loads(attachment.addedLines))
        case "mcp_instructions_delta":
            return _text_of(loads(attachment.addedBlocks))
        case "deferred_tools_delta":
            names = _text_of(loads(attachment.addedLines))
            return f"Tools that can be loaded when needed:\n{names}" if names else ""
        case "date_change":
            return f"The date is now {as_text(loads(attachment.newDate))}."
        case "plan_mode" | "plan_mode_reentry":
            return "Plan mode is on: read and plan, change nothing."
        case "plan_mode_exit":
            return "Plan mode is off."
        case "task_reminder" | "todo_reminder":
            return _text_of(loads(attachment.content))
        case _:
            return ""


def _diagnosed(file: JsonObject) -> str:
    """A file and what the language server says about it, with lines that count from one."""
    found = [f"{as_text(file.get('uri')).removeprefix('file://')}:"]
    for problem in as_objects(file.get("diagnostics")):
        line = as_int(as_object(as_object(problem.get("range")).get("start")).get("line"))
        place = "" if line is None else f" [line {line + 1}]"
        found.append(f"  {as_text(problem.get('severity'))}{place} {as_text(problem.get('message'))}")
    return "\n".join(found)


def _text_of(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "\n".join(filter(None, map(_text_of, value)))
    if isinstance(value, dict):
        return as_text(value.get("text")) or as_text(value.get("content"))
    return ""
