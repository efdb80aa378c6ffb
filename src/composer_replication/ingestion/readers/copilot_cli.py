"""GitHub Copilot CLI sessions: `~/.copilot/session-state/<session>/events.jsonl`, one event per line.

An `assistant.message` is a model response, or one chunk of it: `apiCallId` ties chunks together. The system prompt and
the user's message as sent (`transformedContent`) are recorded, the tool list is not. A compaction runs beside the
session: what was said since its start stays. Lost: opaque reasoning and what a truncation removed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from composer_replication.records import JsonObject, canonical_json

from ..conversation import Conversation
from ..dialogue import arguments_of
from ..documents import feed
from ..reading import InputFile, RawLine
from ..session import AssistantTurn, Said, Session
from ..values import as_list, as_name, as_object, as_objects, as_text, placeholder

AGENT = "copilot_cli"
MARKS = frozenset({
    "session.start", "session.resume", "session.model_change", "session.shutdown", "user.message",
    "assistant.turn_start", "assistant.message", "assistant.turn_end", "tool.execution_start",
    "tool.execution_complete", "system.message", "hook.start", "hook.end",
})  # fmt: skip
BOOKKEEPING = frozenset({
    "abort", "assistant.intent", "assistant.reasoning", "assistant.turn_end", "assistant.turn_start",
    "assistant.usage", "command.completed", "command.execute", "command.queued", "elicitation.completed",
    "elicitation.requested", "exit_plan_mode.completed", "exit_plan_mode.requested", "external_tool.completed",
    "external_tool.requested", "hook.end", "hook.progress", "hook.start", "model.call_failure",
    "permission.completed", "permission.requested", "session.auto_mode_resolved", "session.binary_asset",
    "session.context_changed", "session.custom_agents_updated", "session.error", "session.extensions_loaded",
    "session.handoff", "session.idle", "session.info", "session.mcp_server_status_changed",
    "session.mcp_servers_loaded", "session.mode_changed", "session.permissions_changed", "session.plan_changed",
    "session.remote_steerable_changed", "session.shutdown", "session.skills_loaded", "session.task_complete",
    "session.title_changed", "session.todos_changed", "session.tools_updated", "session.truncation",
    "session.usage_checkpoint", "session.usage_info", "session.warning", "session.workspace_file_changed",
    "skill.invoked", "subagent.completed", "subagent.deselected", "subagent.failed", "subagent.selected",
    "subagent.started", "tool.execution_partial_result", "tool.execution_progress", "tool.execution_start",
    "tool.user_requested", "tool_search.activated", "user_input.completed", "user_input.requested",
})  # fmt: skip
_EXIT_CODE = re.compile(r"<(?:shellId: \S+ completed|exited) with exit code (-?\d{1,10})>\s*\Z")
EXIT_LINE_CHARS = 200


def recognises(record: Any) -> bool:
    fields = as_object(record)
    kind = fields.get("type")
    return isinstance(kind, str) and kind in MARKS and isinstance(fields.get("data"), dict) and "parentId" in fields


def read(file: InputFile) -> Iterator[Session]:
    """One session, or none when the file holds no turn of the main agent."""
    reader = _Reader(file)
    feed(file, reader.add)
    yield reader.session()


class _Reader:
    def __init__(self, file: InputFile) -> None:
        self._report = file.report
        self._conversation = Conversation(file, AGENT)
        self._name: str | None = None
        self._file_name = f"{file.path.parent.name}/{file.path.name}"
        self._model: str | None = None
        self._has_system = False
        self._entries: dict[str, Said | AssistantTurn] = {}
        self._compacting_from: int | None = None

    def session(self) -> Session:
        return self._conversation.session(self._name or self._file_name)

    def add(self, line: RawLine, record: JsonObject) -> None:
        data = as_object(record.get("data"))
        if record.get("agentId") or data.get("parentToolCallId"):
            self._report.skipped["subagent"] += 1
            return
        event_id = as_name(record.get("id")) or f"at {line.start}"
        match as_text(record.get("type")):
            case "assistant.message" | "user.message" if event_id in self._entries:
                self._report.skipped["duplicate_event"] += 1
            case "assistant.message":
                self._entries[event_id] = self._add_assistant(line, event_id, data)
            case "tool.execution_complete":
                self._add_result(data)
            case "user.message":
                self._say(event_id, _sent(data))
            case "system.notification":
                self._say(event_id, as_text(data.get("content")))
            case "system.message":
                self._add_system(event_id, data)
            case "session.start" | "session.resume":
                self._begin(data)
            case "session.model_change":
                self._model = as_name(data.get("newModel")) or self._model
            case "session.compaction_start":
                self._compacting_from = len(self._entries)
            case "session.compaction_complete":
                self._compact(event_id, data)
            case "session.context_cleared":
                self._conversation.restart()
                self._say(event_id, as_text(data.get("initialMessage")))
            case "session.snapshot_rewind":
                self._rewind(as_text(data.get("upToEventId")))
            case kind if kind in BOOKKEEPING:
                self._report.skipped[kind] += 1
            case kind:
                self._report.meet_unknown(self._conversation.version, kind)

    def _begin(self, data: JsonObject) -> None:
        self._name = self._name or as_name(data.get("sessionId"))
        self._model = as_name(data.get("selectedModel")) or self._model
        self._conversation.version = self._conversation.version or as_name(data.get("copilotVersion"))

    def _say(self, event_id: str, text: str) -> None:
        if text.strip():
            self._entries[event_id] = self._conversation.say(text)

    def _add_system(self, event_id: str, data: JsonObject) -> None:
        """The prompt comes again with each interaction; a trace has one, the first."""
        text = as_text(data.get("content"))
        if data.get("role") == "developer":
            self._say(event_id, text)
        elif self._has_system or not text:
            self._report.skipped["system_prompt_again"] += 1
        else:
            self._has_system = True
            self._conversation.system(text)

    def _add_assistant(self, line: RawLine, event_id: str, data: JsonObject) -> AssistantTurn:
        self._model = as_name(data.get("model")) or self._model
        key = as_name(data.get("apiCallId")) or as_name(data.get("messageId")) or event_id
        turn, _ = self._conversation.turn(key, self._model, line.start, line.end)
        self._conversation.add_thinking(turn, as_text(data.get("reasoningText")))
        self._conversation.add_text(turn, as_text(data.get("content")))
        for request in as_objects(data.get("toolRequests")):
            call_id = as_name(request.get("toolCallId")) or f"{key}/{len(turn.calls)}"
            arguments = arguments_of(request.get("arguments"))
            self._conversation.call(turn, call_id, as_text(request.get("name")), arguments)
        return turn

    def _add_result(self, data: JsonObject) -> None:
        call_id = as_name(data.get("toolCallId"))
        if data.get("isUserRequested") is True or not call_id:
            self._report.skipped["result_without_call"] += 1
            return
        text = _result_text(data)
        code = _EXIT_CODE.search(text[-EXIT_LINE_CHARS:])
        self._conversation.result(
            call_id, text, data.get("success") is False or (code is not None and int(code[1]) != 0)
        )

    def _compact(self, event_id: str, data: JsonObject) -> None:
        start, self._compacting_from = self._compacting_from, None
        summary = as_text(data.get("summaryContent"))
        if data.get("success") is False or not summary:
            self._report.skipped["failed_compaction"] += 1
            return
        entries = list(self._entries.values())
        kept = entries[start:] if start is not None else []
        self._conversation.restart(list({id(entry): entry for entry in kept}.values()), summary_follows=True)
        self._say(event_id, summary)

    def _rewind(self, event_id: str) -> None:
        """The file may have been cut at that event already; then there is nothing to do."""
        target = self._entries.get(event_id)
        if isinstance(target, Said):
            self._conversation.rewind(target)
            ids = list(self._entries)
            for dropped in ids[ids.index(event_id) :]:
                del self._entries[dropped]
        else:
            self._report.skipped["rewind_to_unknown_event"] += 1


def _sent(data: JsonObject) -> str:
    """What the model was sent; image attachments become placeholders."""
    text = as_text(data.get("transformedContent")) or as_text(data.get("content"))
    blobs = [part for part in as_objects(data.get("attachments")) if part.get("type") in ("blob", "image")]
    return "\n".join([text, *(placeholder(part.get("type"), part) for part in blobs)])


def _result_text(data: JsonObject) -> str:
    error, result = as_object(data.get("error")), as_object(data.get("result"))
    if text := as_text(result.get("content")) or as_text(error.get("message")):
        return text
    parts = as_list(result.get("contents"))
    return canonical_json(parts) if parts else as_text(data.get("result")) or as_text(data.get("error"))
