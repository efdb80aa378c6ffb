"""The kinds of events in OpenHands before 1.0, and their texts as the model got them."""

from __future__ import annotations

from typing import Any

from composer_replication.records import JsonObject

from ..chat_messages import text_of
from ..values import as_int, as_list, as_object, as_objects, as_text
from .openhands_view import STILL_RUNNING, command_output

TOOLS: dict[str, tuple[str, tuple[str, ...]]] = {
    "run": ("execute_bash", ("command", "is_input")),
    "run_ipython": ("execute_ipython_cell", ("code",)),
    "browse": ("browse", ("url",)),
    "browse_interactive": ("browser", ("browser_actions",)),
    "read": ("read", ("path", "start", "end", "view_range")),
    "write": ("write", ("path", "content", "start", "end")),
    "edit": ("edit", ("path", "command", "file_text", "old_str", "new_str", "insert_line", "content", "start", "end")),
    "call_tool_mcp": ("call_tool_mcp", ("name", "arguments")),
    "task_tracking": ("task_tracker", ("command", "task_list")),
    "delegate": ("delegate", ("agent", "inputs")),
    "think": ("think", ("thought",)),
    "finish": ("finish", ("final_thought", "outputs")),
    "reject": ("reject", ("outputs",)),
}
TALK = frozenset({"message", "system", "condensation"})
BOOKKEEPING = frozenset({
    "recall", "change_agent_state", "condensation_request", "null", "start", "stop", "pause", "resume", "push",
    "send_pr", "loop_recovery",
})  # fmt: skip
RESULTS = frozenset({
    "run", "run_ipython", "browse", "read", "write", "edit", "mcp", "task_tracking", "delegate", "think", "error",
    "user_rejected", "success", "download", "condense", "message",
})  # fmt: skip
BOOKKEEPING_OBSERVATIONS = frozenset({"null", "agent_state_changed", "loop_detection", "chat"})
RECALLED = (
    "repo_name", "repo_directory", "repo_branch", "repo_instructions", "working_dir", "date",
    "additional_agent_instructions", "conversation_instructions",
)  # fmt: skip


def observed(event: JsonObject, kind: str, extras: JsonObject) -> str:
    """The text as the model got it."""
    text = text_of(event.get("content"))
    match kind:
        case "run":
            metadata, number = as_object(extras.get("metadata")), as_int(extras.get("command_id"))
            command = "Command" if metadata or number is None else f"Command {number}"
            return command_output(text, metadata, _exit_code(extras), command)
        case "edit":
            return as_text(extras.get("formatted_output_and_error")) or text
        case "error":
            return f"{text}\n[Error occurred in processing last action]"
        case "user_rejected":
            return f"OBSERVATION:\n{text}\n[Last action has been rejected by the user]"
        case "delegate":
            return as_text(as_object(extras.get("outputs")).get("content")) or text
        case _:
            return text


def _exit_code(extras: JsonObject) -> int | None:
    code = as_int(as_object(extras.get("metadata")).get("exit_code"))
    return as_int(extras.get("exit_code")) if code is None else code


def failed(event: JsonObject, kind: str, extras: JsonObject) -> bool:
    """A command that still runs has exit code -1 and `success` false: it has not failed."""
    if kind in ("error", "user_rejected") or extras.get("error") is True:
        return True
    code = _exit_code(extras) if kind == "run" else None
    return event.get("success") is False if code is None else code not in (0, STILL_RUNNING)


def recalled(extras: JsonObject) -> str:
    facts = [f"{name}: {text}" for name in RECALLED if (text := as_text(extras.get(name)))]
    knowledge = [as_text(item.get("content")) for item in as_objects(extras.get("microagent_knowledge"))]
    return "\n\n".join([*facts, *filter(None, knowledge)])


def is_event(value: Any) -> bool:
    event = as_object(value)
    action, observation = event.get("action"), event.get("observation")
    if isinstance(action, str) and (action in TOOLS or action in TALK or action in BOOKKEEPING):
        return isinstance(event.get("args"), dict) and ("timestamp" in event or "source" in event)
    if isinstance(observation, str) and (observation in RESULTS or observation in BOOKKEEPING_OBSERVATIONS):
        return isinstance(event.get("extras"), dict) and "content" in event
    return False


def is_row(value: Any) -> bool:
    """A row of `output.jsonl`: its history may be in an older form without `args`."""
    history = as_list(as_object(value).get("history"))
    first = as_list(history[0])[0] if history and as_list(history[0]) else history[0] if history else None
    event = as_object(first)
    kind = event.get("action", event.get("observation"))
    return isinstance(kind, str) and "role" not in event and (kind in TOOLS or kind in TALK or kind in BOOKKEEPING)
