"""Claude Code sessions: `~/.claude/projects/<folder>/<session>.jsonl`, read in file order.

The format has no official schema and `parentUuid` chains are often broken, so the order of the file is what counts.
One assistant message spreads over several lines, with results of its parallel calls in between; `message.id` ties them
together. The real system prompt is not recorded, so every turn is "reconstructed".
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import cast

from composer_replication.records import JsonObject, Source, Trace, TraceState, canonical_json, content_id

from .conversation import AssistantDraft, Conversation, UserDraft
from .reading import Line, ReadResult, read_lines

AGENT = "claude_code"
SYSTEM_PROMPT = (
    "You are a coding agent in the user's repository. Work through the tools you are given: read before you change, "
    "change only what the task needs, check the result, and say briefly what you did."
)
CONVERSATION_TYPES = frozenset({"user", "assistant", "system", "attachment", "progress", "queue-operation"})
BOOKKEEPING_TYPES = frozenset({
    "progress", "file-history-snapshot", "summary", "last-prompt", "custom-title", "ai-title", "agent-name", "mode",
    "permission-mode", "pr-link", "bridge-session", "frame-link",
})  # fmt: skip
MAX_TYPE_CHARS = 40


class ClaudeCodeIngester:
    def recognises(self, record: JsonObject) -> bool:
        kind = record.get("type")
        if kind in CONVERSATION_TYPES:
            return isinstance(record.get("sessionId"), str)
        return (kind == "summary" and "leafUuid" in record) or (
            kind == "file-history-snapshot" and "messageId" in record
        )

    def ingest(self, path: Path) -> Iterator[TraceState]:
        for trace in self.read(path).traces:
            yield from trace.states()

    def read(self, path: Path) -> ReadResult:
        """One trace, or none when the file holds no turn of the main agent."""
        result = ReadResult()
        session = _Session(path, result)
        for line in read_lines(path, result):
            session.add(line)
        trace = session.trace()
        if trace.turns:
            result.traces.append(trace)
        return result


class _Session:
    def __init__(self, path: Path, result: ReadResult) -> None:
        self._file = path
        self._skipped = result.skipped
        self._conversation = Conversation(SYSTEM_PROMPT, result.skipped)
        self._session_id: str | None = None
        self._version: str | None = None
        self._uuids: set[str] = set()
        self._queue: deque[str] = deque()
        self._delivered: dict[str, UserDraft] = {}

    def trace(self) -> Trace:
        source = Source(agent=AGENT, version=self._version, file=self._file.name)
        return self._conversation.trace(content_id(AGENT, self._session_id or self._file.stem), source)

    def add(self, line: Line) -> None:
        record = line.record
        self._session_id = self._session_id or _text(record.get("sessionId"))
        self._version = self._version or _text(record.get("version"))
        uuid = _text(record.get("uuid"))
        if record.get("isSidechain"):
            self._skipped["sidechain"] += 1
        elif uuid and uuid in self._uuids:
            self._skipped["duplicate_uuid"] += 1
        else:
            if uuid:
                self._uuids.add(uuid)
            self._dispatch(line, record)

    def _dispatch(self, line: Line, record: JsonObject) -> None:
        match record.get("type"):
            case "assistant":
                self._add_assistant(line, record)
            case "user":
                self._add_user(_object(record.get("message")))
            case "queue-operation":
                self._add_queue_operation(record)
            case "system" if record.get("subtype") == "compact_boundary":
                self._conversation.restart()
            case "attachment" if _object(record.get("attachment")).get("type") == "queued_command":
                self._deliver(flatten(_object(record.get("attachment")).get("prompt")))
            case "attachment":
                self._skip("attachment", _object(record.get("attachment")).get("type"))
            case "system":
                self._skip("system", record.get("subtype"))
            case kind if isinstance(kind, str) and kind in BOOKKEEPING_TYPES:
                self._skipped[kind] += 1
            case kind:
                self._skip("unknown", kind)

    def _skip(self, group: str, kind: object) -> None:
        self._skipped[f"{group}/{str(kind)[:MAX_TYPE_CHARS]}"] += 1

    def _add_assistant(self, line: Line, record: JsonObject) -> None:
        message = _object(record.get("message"))
        model = _text(message.get("model"))
        if record.get("isApiErrorMessage"):
            self._skipped["api_error"] += 1
            return
        if model == "<synthetic>":
            self._skipped["synthetic"] += 1
            return
        key = _text(message.get("id")) or _text(record.get("uuid")) or f"byte {line.start}"
        draft, begins = self._conversation.assistant(key, model, line.start, line.end)
        if begins:
            # A queued text that is repeated after this point was typed again, it is not a second copy.
            self._delivered.clear()
        for number, block in enumerate(_blocks(message.get("content"))):
            self._add_block(draft, block, fallback_id=f"{key}/{line.start}/{number}")

    def _add_block(self, draft: AssistantDraft, block: JsonObject, fallback_id: str) -> None:
        match block.get("type"):
            case "text":
                if (text := _text(block.get("text"))) and text.strip():
                    draft.texts.append(text)
            case "thinking":
                if (text := _text(block.get("thinking"))) and text.strip():
                    draft.thinking.append(text)
            case "tool_use":
                call_id = _text(block.get("id")) or fallback_id
                self._conversation.call(draft, call_id, _text(block.get("name")) or "", _arguments(block.get("input")))
            case kind:
                self._skip("block", kind)

    def _add_user(self, message: JsonObject) -> None:
        rest: list[JsonObject] = []
        for block in _blocks(message.get("content")):
            if block.get("type") != "tool_result":
                rest.append(block)
            elif call_id := _text(block.get("tool_use_id")):
                failed = block.get("is_error") is True
                self._conversation.result(call_id, flatten(block.get("content")), failed)
            else:
                self._skipped["result_without_call"] += 1
        text = flatten(rest)
        if text.strip():
            self._forget_delivered(text)
            self._conversation.say(text)

    def _add_queue_operation(self, record: JsonObject) -> None:
        """A text queued during a turn reaches the model when it leaves the queue; `popAll` hands it back unsent."""
        match record.get("operation"):
            case "enqueue":
                text = flatten(record.get("content"))
                if text.startswith('{"task_id"'):
                    self._skipped["queued_task_event"] += 1
                elif text.strip():
                    self._queue.append(text)
            case "dequeue" | "remove":
                if self._queue:
                    self._deliver(self._queue.popleft())
            case "popAll":
                self._skipped["queued_and_recalled"] += len(self._queue)
                self._queue.clear()
            case kind:
                self._skip("queue-operation", kind)

    def _deliver(self, text: str) -> None:
        if text.startswith("/"):
            self._skipped["queued_command_line"] += 1
        elif text.strip():
            self._forget_delivered(text)
            self._delivered[text.strip()] = self._conversation.say(text)

    def _forget_delivered(self, text: str) -> None:
        """Newer versions record a queued text a second time; the later record stands."""
        if earlier := self._delivered.pop(text.strip(), None):
            earlier.dropped = True


def flatten(content: object) -> str:
    """Text of a message or tool result. An image becomes a placeholder that tells equal images from others."""
    return "\n".join(_part_text(block) for block in _blocks(content))


def _part_text(part: JsonObject) -> str:
    kind = part.get("type")
    if kind == "text":
        return _text(part.get("text")) or ""
    if kind == "tool_reference":
        return f"[tool {part.get('tool_name')}]"
    return f"[{kind} {content_id(part.get('source'))[:8]}]"


def _blocks(content: object) -> list[JsonObject]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    if not isinstance(content, list):
        return []
    parts = cast(list[object], content)
    return [_object(part) or {"type": "text", "text": str(part)} for part in parts]


def _arguments(value: object) -> str:
    """The call's arguments as JSON text, or what the model wrote where that is not JSON."""
    raw = _object(_object(value).get("__unparsedToolInput")).get("raw")
    return raw if isinstance(raw, str) else canonical_json(_object(value))


def _object(value: object) -> JsonObject:
    return cast(JsonObject, value) if isinstance(value, dict) else {}


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
