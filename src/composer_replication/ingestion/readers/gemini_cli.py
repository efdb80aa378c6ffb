"""Gemini CLI chats: `~/.gemini/tmp/<project>/chats/session-*.json`, and the newer append-only `session-*.jsonl`.

A chat is a list of messages; calls and their results lie inside the model's message. The newer log writes a message
again when it changes (the last version counts), `$rewindTo` takes messages back, and `$set` with messages replaces the
history after a compression. The writer appends calls of a later, silent response to the message before; they are told
apart by the time of recording. Lost: system prompt, tool list, version, and thoughts except for their summaries.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from composer_replication.records import JsonObject, canonical_json, content_id

from ..conversation import Conversation
from ..reading import InputFile, ReadingReport
from ..session import AssistantTurn, Said, Session
from ..values import as_list, as_name, as_object, as_objects, as_text, placeholder

AGENT = "gemini_cli"
SCREEN_TYPES = frozenset({"info", "error", "warning"})
FAILED_STATUSES = ("error", "cancelled")
SHELL_TOOLS = ("run_shell_command", "shell")
# The writer stamps the calls of one response in one go; another response takes a model call in between.
SAME_RESPONSE_S = 0.25
_EXIT_CODE = re.compile(r"^Exit Code: (-?\d{1,10})$", re.MULTILINE)


def recognises(value: Any) -> bool:
    fields = as_object(value)
    if isinstance(fields.get("projectHash"), str):
        return isinstance(fields.get("sessionId"), str)
    if fields.get("type") == "gemini":
        return isinstance(fields.get("id"), str) and "content" in fields
    return len(fields) == 1 and (isinstance(fields.get("$rewindTo"), str) or isinstance(fields.get("$set"), dict))


def read(file: InputFile) -> Iterator[Session]:
    """The sessions of a file: a chat, a log, or a list of chats."""
    log = _Log()
    for document in file.documents():
        for record in file.report.objects(document.value) or [as_object(document.value)]:
            if log.steps and ("projectHash" in record and record.get("sessionId") != log.metadata.get("sessionId")):
                yield from _session(file, log)
                log = _Log()
            if not log.add(file.report, record, document.start, document.end):
                file.report.meet_unknown(None, "/".join(map(str, record)))
    yield from _session(file, log)


@dataclass
class _Message:
    record: JsonObject
    start: int
    end: int


@dataclass
class _Rewind:
    to: str


@dataclass
class _Checkpoint:
    records: list[JsonObject]


@dataclass
class _Log:
    """The steps of a session in order, each message in its last version."""

    metadata: JsonObject = field(default_factory=dict[str, Any])
    messages: dict[str, _Message] = field(default_factory=dict[str, _Message])
    steps: list[_Message | _Rewind | _Checkpoint] = field(default_factory=list[_Message | _Rewind | _Checkpoint])

    def add(self, report: ReadingReport, record: JsonObject, start: int, end: int) -> bool:
        """Takes a record of the log; False where it is none."""
        update = as_object(record.get("$set"))
        if rewind := as_name(record.get("$rewindTo")):
            self.steps.append(_Rewind(rewind))
        elif "projectHash" in record and "sessionId" in record:
            self._begin(report, record, start, end)
        elif "type" in record:
            self._add_message(report, record, start, end)
        elif "$set" in record:
            self.metadata |= {name: value for name, value in update.items() if name != "messages"}
            if isinstance(update.get("messages"), list):
                self.steps.append(_Checkpoint(report.objects(update.get("messages"))))
        else:
            return False
        return True

    def _begin(self, report: ReadingReport, record: JsonObject, start: int, end: int) -> None:
        self.metadata |= {name: value for name, value in record.items() if name != "messages"}
        for message in report.objects(record.get("messages")):
            self._add_message(report, message, start, end)

    def _add_message(self, report: ReadingReport, record: JsonObject, start: int, end: int) -> None:
        message_id = as_name(record.get("id")) or content_id(record)
        if known := self.messages.get(message_id):
            known.record, known.end = record, end
            report.skipped["message_written_again"] += 1
            return
        message = self.messages[message_id] = _Message({**record, "id": message_id}, start, end)
        self.steps.append(message)


def _session(file: InputFile, log: _Log) -> Iterator[Session]:
    is_subagent = log.metadata.get("kind") == "subagent"
    if is_subagent and file.leaves_out_subagent():
        return
    writer = _Writer(file)
    writer.conversation.is_subagent = is_subagent
    for step in log.steps:
        try:
            writer.add(step)
        except RecursionError:
            file.quarantine(step.start if isinstance(step, _Message) else 0, "nested too deeply")
    name = as_name(log.metadata.get("sessionId")) or content_id([message.record for message in log.messages.values()])
    yield writer.conversation.session(name)


class _Writer:
    def __init__(self, file: InputFile) -> None:
        self._report = file.report
        self.conversation = Conversation(file, AGENT)
        self._placed: dict[str, list[Said | AssistantTurn]] = {}
        """What each message of the present history became."""
        self._results: dict[str, Any] = {}

    def add(self, step: _Message | _Rewind | _Checkpoint) -> None:
        match step:
            case _Rewind():
                self._rewind(step.to)
            case _Checkpoint():
                self._replace(step.records)
            case _Message():
                self._add_message(step)

    def _add_message(self, message: _Message) -> None:
        record = message.record
        message_id, kind = as_text(record.get("id")), record.get("type")
        if kind == "gemini":
            self._placed[message_id] = self._add_answer(message_id, message)
        elif kind == "user":
            self._say(message_id, record)
        elif isinstance(kind, str) and kind in SCREEN_TYPES:
            self._report.skipped[kind] += 1
        else:
            self._report.meet_unknown(None, kind)

    def _say(self, message_id: str, record: JsonObject) -> None:
        if (text := _text(record.get("content"))).strip():
            self._placed[message_id] = [self.conversation.say(text)]

    def _add_answer(self, message_id: str, message: _Message) -> list[Said | AssistantTurn]:
        record, turns = message.record, list[Said | AssistantTurn]()
        model = as_name(record.get("model"))
        for number, calls in enumerate(_responses(as_objects(record.get("toolCalls")))):
            key = f"{message_id}/{number}" if number else message_id
            turn, _ = self.conversation.turn(key, model, message.start, message.end)
            turns.append(turn)
            if number == 0:
                for thought in as_objects(record.get("thoughts")):
                    self.conversation.add_thinking(turn, _thought(thought))
                self.conversation.add_text(turn, _text(record.get("content")))
            for position, call in enumerate(calls):
                self._add_call(turn, f"{key}/{position}", call)
        return turns

    def _add_call(self, turn: AssistantTurn, made_up_id: str, call: JsonObject) -> None:
        call_id, name = as_name(call.get("id")) or made_up_id, as_text(call.get("name"))
        self.conversation.call(turn, call_id, name, as_object(call.get("args")))
        if call.get("result") is not None:
            self._results[call_id] = call.get("result")
            text = _result_text(call.get("result"))
            failed = call.get("status") in FAILED_STATUSES or (name in SHELL_TOOLS and _exit_code(text) != 0)
            self.conversation.result(call_id, text, failed)

    def _rewind(self, message_id: str) -> None:
        """The message and all after it go; the CLI drops everything when it does not know the message."""
        target = self._placed.get(message_id)
        if target is None:
            self.conversation.restart()
            self._placed.clear()
        elif isinstance(target[0], Said):
            self.conversation.rewind(target[0])
            ids = list(self._placed)
            for dropped in ids[ids.index(message_id) :]:
                del self._placed[dropped]
        else:
            self._report.skipped["rewind_to_an_answer"] += 1

    def _replace(self, records: list[JsonObject]) -> None:
        """A compression names the messages that stay and brings a summary; masking only empties tool results."""
        ids = {as_text(record.get("id")): record for record in records}
        masked = [call_id for record in records for call_id in self._masked(record)]
        new = {key: record for key, record in ids.items() if key not in self._placed and _text(record.get("content"))}
        kept = {key: entries for key, entries in self._placed.items() if key in ids}
        if new or len(kept) < len(self._placed):
            self._placed = kept
            said = [(key, record) for key, record in new.items() if record.get("type") == "user"]
            self.conversation.restart(
                [entry for entries in kept.values() for entry in entries], summary_follows=bool(said)
            )
            self._report.skipped["synthetic_answer"] += len(new) - len(said)
            for key, record in said:
                self._say(key, record)
        if masked:
            self.conversation.clear_results(masked)

    def _masked(self, record: JsonObject) -> Iterator[str]:
        for call in as_objects(record.get("toolCalls")):
            call_id = as_text(call.get("id"))
            if call_id in self._results and self._results[call_id] != call.get("result"):
                self._results[call_id] = call.get("result")
                yield call_id


def _responses(calls: list[JsonObject]) -> list[list[JsonObject]]:
    """The calls of a message, one list per model response; a message without calls is one response."""
    groups: list[list[JsonObject]] = [[]]
    last: float | None = None
    for call in calls:
        time = _seconds(call.get("timestamp"))
        if last is not None and time is not None and time - last > SAME_RESPONSE_S:
            groups.append([])
        groups[-1].append(call)
        last = time if time is not None else last
    return groups


def _seconds(value: Any) -> float | None:
    try:
        return datetime.fromisoformat(as_text(value)).timestamp()
    except (ValueError, OverflowError):
        return None


def _thought(thought: JsonObject) -> str:
    return "\n".join(filter(None, (as_text(thought.get("subject")), as_text(thought.get("description")).strip())))


def _text(content: Any) -> str:
    """Text of a message. Calls, results and thoughts that newer versions repeat among the parts do not count."""
    if isinstance(content, str):
        return content
    parts = as_list(content) if isinstance(content, list) else [content]
    return "\n".join(filter(None, map(_part_text, parts)))


def _part_text(part: Any) -> str:
    if isinstance(part, str):
        return part
    fields = as_object(part)
    if not fields or fields.get("thought") or {"functionCall", "functionResponse"} & fields.keys():
        return ""
    if isinstance(fields.get("text"), str):
        return fields["text"]
    return placeholder(next(iter(fields)), part)


def _result_text(result: Any) -> str:
    """The tool's answer as the model got it: output, error, or any other fields as JSON."""
    texts: list[str] = []
    for part in as_list(result) if isinstance(result, list) else [result]:
        response = as_object(as_object(part).get("functionResponse")).get("response")
        if response is None:
            texts.append(_part_text(part))
            continue
        fields = as_object(response)
        text = fields.get("output", fields.get("error"))
        texts.append(text if isinstance(text, str) else canonical_json(response))
    return "\n".join(filter(None, texts))


def _exit_code(text: str) -> int:
    codes = _EXIT_CODE.findall(text)
    return int(codes[-1]) if codes else 0
