"""Claude Code sessions: `~/.claude/projects/<folder>/<session>.jsonl`, read in file order.

The format has no official schema and `parentUuid` chains are often broken, so the order of the file is what counts;
`parentUuid` only shows where the user rewound. One assistant message spreads over several lines, with results of its
parallel calls in between; `message.id` ties them together. The system prompt is recorded by newer versions only.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from composer_replication.records import JsonObject

from ..conversation import Conversation
from ..reading import InputFile, RawLine
from ..session import AssistantTurn, Said, Session
from ..values import as_list, as_object, as_text, placeholder
from .claude_code_lines import Attachment, Block, LoggedRecord, blocks_of, decode, is_bulky, loads
from .claude_code_queue import MessageQueue
from .claude_code_reminders import reminder

AGENT = "claude_code"
CONVERSATION_TYPES = frozenset({"user", "assistant", "system", "attachment", "progress", "queue-operation"})
BOOKKEEPING_TYPES = frozenset({
    "progress", "file-history-snapshot", "summary", "last-prompt", "custom-title", "ai-title", "agent-name", "mode",
    "permission-mode", "pr-link", "bridge-session", "frame-link", "tag", "cost-state", "continued-in", "relocated",
    "content-replacement", "atis-latch", "scheduled_task_fire", "agents_killed",
})  # fmt: skip
BOOKKEEPING_SUBTYPES = frozenset({
    "stop_hook_summary", "turn_duration", "api_error", "local_command", "away_summary", "bridge_status",
    "informational", "model_refusal_fallback",
})  # fmt: skip
NO_PARENT = ""
NOT_TYPED_BY_THE_USER = ("<", "[Request interrupted", "Caveat:")


def recognises(record: Any) -> bool:
    if not isinstance(record, dict):
        return False
    kind = as_text(record.get("type"))
    if kind in CONVERSATION_TYPES:
        return isinstance(record.get("sessionId"), str)
    return (kind == "summary" and "leafUuid" in record) or (kind == "file-history-snapshot" and "messageId" in record)


def read(file: InputFile) -> Iterator[Session]:
    """One session; it has no turn when the file holds none of the main agent."""
    reader = _Reader(file)
    for line in file.lines():
        if is_bulky(line.raw):
            file.report.skipped["progress"] += 1
            continue
        try:
            reader.add(line, decode(line.raw))
        except (ValueError, RecursionError) as error:
            file.refuse(line, error)
    yield reader.session()


class _Reader:
    def __init__(self, file: InputFile) -> None:
        self._report = file.report
        self._conversation = Conversation(file, AGENT)
        self._file = file
        self._name = file.path.stem
        self._is_subagent: bool | None = None
        self._session_id: str | None = None
        self._uuids: dict[int, Said | AssistantTurn | None] = {}
        self._prompts: dict[str, Said] = {}
        self._before_system: dict[str, str] = {}
        self._queue = MessageQueue(self._conversation, self._report)

    def session(self) -> Session:
        self._queue.close()
        return self._conversation.session(self._session_id or self._name)

    def add(self, line: RawLine, record: LoggedRecord) -> None:
        self._session_id = self._session_id or record.sessionId
        self._conversation.version = self._conversation.version or record.version
        uuid = hash(record.uuid) if record.uuid else None
        if self._is_subagent is None and record.type in ("user", "assistant"):
            self._begin(record)
        if record.isSidechain and not (self._is_subagent and self._file.subagents):
            self._report.skipped["sidechain"] += 1
        elif uuid is not None and uuid in self._uuids:
            self._report.skipped["duplicate_uuid"] += 1
        else:
            entry = self._dispatch(line, record)
            if uuid is not None:
                self._uuids[uuid] = entry

    def _begin(self, record: LoggedRecord) -> None:
        """From 2.0 on subagents have names and files of their own; before, their records stood among the others."""
        self._is_subagent = self._conversation.is_subagent = bool(
            record.isSidechain and (record.agentId or self._name.startswith("agent-"))
        )
        if self._is_subagent and not self._file.leaves_out_subagent():
            self._session_id = f"{record.sessionId}/{record.agentId or self._name}"
            if record.parentUuid:
                # It saw the main agent's history, which is in another file.
                self._conversation.fidelity = "partial"

    def _dispatch(self, line: RawLine, record: LoggedRecord) -> Said | AssistantTurn | None:
        match record.type:
            case "assistant":
                return self._add_assistant(line, record)
            case "user":
                return self._add_user(record)
            case "queue-operation":
                self._queue.operate(record.operation, flatten(loads(record.content)))
            case "attachment":
                return self._add_attachment(record.attachment or Attachment())
            case "system":
                self._add_system(record)
            case kind if kind in BOOKKEEPING_TYPES:
                self._report.skipped[kind] += 1
            case kind:
                self._report.meet_unknown(record.version, kind)
        return None

    def _add_system(self, record: LoggedRecord) -> None:
        if record.uuid and isinstance(record.parentUuid, str):
            self._before_system[record.uuid] = self._before_system.get(record.parentUuid, record.parentUuid)
        match record.subtype:
            case "compact_boundary":
                self._prompts.pop(NO_PARENT, None)
                kept, missing = self._kept(as_object(loads(record.compactMetadata)))
                self._report.skipped["kept_message_not_in_file"] += missing
                self._conversation.restart(kept, summary_follows=bool(kept), is_incomplete=missing > 0)
            case "microcompact_boundary":
                ids = as_object(loads(record.microcompactMetadata)).get("compactedToolIds")
                self._conversation.clear_results([as_text(item) for item in as_list(ids)])
            case kind if kind in BOOKKEEPING_SUBTYPES:
                self._report.skip("system", kind)
            case kind:
                self._report.meet_unknown(record.version, f"system/{kind}")

    def _kept(self, metadata: JsonObject) -> tuple[list[Said | AssistantTurn], int]:
        """Messages that stay in the context after a compaction, in their order and each once, and how many are not in
        the file. They are listed, or are all from a first to a last one."""
        listed = as_list(as_object(metadata.get("preservedMessages")).get("uuids"))
        segment = as_object(metadata.get("preservedSegment"))
        ends = [segment.get("headUuid"), segment.get("tailUuid")]
        keys = [hash(uuid) for uuid in listed or ends if isinstance(uuid, str)]
        known = [key for key in keys if key in self._uuids]
        missing = len(keys) - len(known)
        if not listed and len(known) == 2:
            order = list(self._uuids)
            known = order[order.index(known[0]) : order.index(known[1]) + 1]
        entries = [self._uuids[key] for key in known]
        return list({id(entry): entry for entry in entries if entry is not None}.values()), missing

    def _add_assistant(self, line: RawLine, record: LoggedRecord) -> AssistantTurn | None:
        message = record.message
        if message is None:
            self._report.skipped["assistant_without_message"] += 1
            return None
        if record.isApiErrorMessage:
            self._report.skipped["api_error"] += 1
            return None
        if message.model == "<synthetic>":
            self._report.skipped["synthetic"] += 1
            return None
        key = message.id or record.uuid or f"{self._session_id}/{line.start}"
        # Everything is parsed before anything is kept: a line that turns out broken must leave no trace.
        parsed = [(block, _value(block)) for block in blocks_of(message.content)]
        turn, begins = self._conversation.turn(key, message.model, line.start, line.end)
        if begins:
            self._queue.begin_answer()
        for number, (block, value) in enumerate(parsed):
            match block.type:
                case "text":
                    self._conversation.add_text(turn, as_text(value))
                case "thinking":
                    self._conversation.add_thinking(turn, as_text(value))
                case "tool_use":
                    call_id = block.id or f"{key}/{line.start}/{number}"
                    self._conversation.call(turn, call_id, block.name or "", _arguments(value))
                case kind:
                    self._report.skip("block", kind)
        return turn

    def _add_user(self, record: LoggedRecord) -> Said | None:
        blocks = blocks_of(record.message.content) if record.message else []
        results = [(block, flatten(loads(block.content))) for block in blocks if block.type == "tool_result"]
        text = "\n".join(_block_text(block) for block in blocks if block.type != "tool_result")
        for block, content in results:
            if block.tool_use_id:
                self._conversation.result(block.tool_use_id, content, block.is_error is True)
            else:
                self._report.skipped["result_without_call"] += 1
        if not text.strip():
            return None
        typed = not (results or record.isMeta or record.isCompactSummary or text.startswith(NOT_TYPED_BY_THE_USER))
        parent = NO_PARENT if record.parentUuid is None else record.parentUuid
        self._queue.said(text, typed)
        if not typed or not isinstance(parent, str):
            return self._conversation.say(text)
        parent = self._before_system.get(parent, parent)
        if earlier := self._prompts.get(parent):
            self._conversation.rewind(earlier)
        said = self._prompts[parent] = self._conversation.say(text)
        return said

    def _add_attachment(self, attachment: Attachment) -> Said | None:
        if attachment.type == "queued_command":
            return self._queue.attached(flatten(loads(attachment.prompt)))
        if attachment.type == "prompt_snapshot":
            self._add_snapshot(attachment)
            return None
        text = reminder(attachment)
        if text is None:
            self._report.skip("attachment", attachment.type)
            return None
        return self._conversation.say(text)

    def _add_snapshot(self, attachment: Attachment) -> None:
        """The system prompt and tools as they were sent."""
        if prompt := flatten(loads(attachment.systemPrompt)):
            self._conversation.system(prompt)
        if tools := [as_object(tool) for tool in as_list(loads(attachment.tools)) if as_object(tool).get("name")]:
            self._conversation.tools(_openai_tool(tool) for tool in tools)


def _value(block: Block) -> Any:
    """What a block of an answer holds; None where its kind says nothing to us."""
    match block.type:
        case "text":
            return loads(block.text)
        case "thinking":
            return loads(block.thinking)
        case "tool_use":
            return loads(block.input)
        case _:
            return None


def flatten(content: Any) -> str:
    """Text of a message or tool result. An image becomes a placeholder that tells equal images from others."""
    if isinstance(content, str):
        return content
    return "\n".join(_part_text(part) for part in as_list(content))


def _part_text(part: Any) -> str:
    if not isinstance(part, dict):
        return str(part)
    kind = part.get("type")
    if kind == "text":
        return as_text(part.get("text"))
    if kind == "tool_reference":
        return f"[tool {part.get('tool_name')}]"
    return placeholder(kind, part.get("source"))


def _block_text(block: Block) -> str:
    if block.type == "text":
        return as_text(loads(block.text))
    return placeholder(block.type, loads(block.source))


def _arguments(value: Any) -> str | JsonObject:
    """The call's arguments, or what the model wrote where that is not JSON."""
    raw = as_object(as_object(value).get("__unparsedToolInput")).get("raw")
    return raw if isinstance(raw, str) else as_object(value)


def _openai_tool(tool: JsonObject) -> JsonObject:
    function = {
        "name": tool["name"],
        "description": as_text(tool.get("description")),
        "parameters": as_object(tool.get("input_schema") or tool.get("inputSchema")),
    }
    return {"type": "function", "function": function}
