"""OpenHands 1.x (software-agent-sdk): `events.jsonl`, the folder `events/event-*.json`, `history` in
rows of an evaluation's `output.jsonl`, and logs of single LLM calls (`openhands_logs`).

An event has a `kind`. A turn is one `llm_response_id`: parallel calls are several ActionEvents. Observations get the
lines that the SDK adds for the model. A Condensation drops events and puts a summary in their place. The model's name
comes from `base_state.json` beside the folder, or from the statistics among the events. Lost: the parameters of the
tools, which the events name only, and calls that an ACP agent made on its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from composer_replication.records import JsonObject

from ..chat_messages import openai_tools, take_apart, text_of
from ..conversation import Conversation
from ..dialogue import ModelReply, ParsedCall
from ..documents import outcome_of, read_row
from ..reading import Document, InputFile, parse_json
from ..session import Session
from ..values import as_int, as_list, as_name, as_object, as_text
from .openhands_logs import AGENT, is_log, read_log
from .openhands_view import STILL_RUNNING, View, command_output

SEEN_KINDS = frozenset({
    "SystemPromptEvent", "MessageEvent", "ActionEvent", "ObservationEvent", "UserRejectObservation", "AgentErrorEvent",
    "Condensation", "CondensationSummaryEvent",
})  # fmt: skip
BOOKKEEPING = frozenset({
    "ConversationStateUpdateEvent", "ConversationErrorEvent", "ServerErrorEvent", "CondensationRequest", "PauseEvent",
    "InterruptEvent", "HookExecutionEvent", "LLMCompletionLogEvent", "StreamingDeltaEvent", "TokenEvent",
    "ACPToolCallEvent",
})  # fmt: skip
ERROR_HEADER = "[An error occurred during execution.]\n"
MAX_OUTPUT_CHARS = 30_000
CLIPPED = "<response clipped>"


def recognises(value: Any) -> bool:
    record = as_object(value)
    history = as_list(record.get("history"))
    return _is_event(record) or is_log(record) or (bool(history) and _is_event(as_object(history[0])))


def read(file: InputFile) -> Iterator[Session]:
    events = _Events(file)
    for document in _documents(file):
        for record in file.report.objects(document.value) or [as_object(document.value)]:
            make = read_log if is_log(record) else _session if "history" in record else events.take
            yield from read_row(file, make, document._replace(value=record))
    session = events.session()
    if session.turns:
        yield session


def _is_event(record: JsonObject) -> bool:
    kind = record.get("kind")
    known = isinstance(kind, str) and (kind in SEEN_KINDS or kind in BOOKKEEPING)
    return known and isinstance(record.get("id"), str) and "source" in record


def _session(file: InputFile, document: Document) -> Iterator[Session]:
    """A row of an evaluation's `output.jsonl`."""
    row, events = as_object(document.value), _Events(file)
    for event in file.report.objects(row.get("history")):
        events.add(event, document)
    report = as_object(as_object(row.get("test_result")).get("report"))
    yield events.session(as_name(row.get("instance_id")), outcome_of(report.get("resolved")))


def _documents(file: InputFile) -> Iterator[Document]:
    if not file.path.is_dir():
        yield from file.documents()
        return
    for record, line in file.records():
        yield Document(record, line.start, line.end)


class _Events:
    def __init__(self, file: InputFile) -> None:
        self._report = file.report
        self._conversation = Conversation(file, AGENT)
        self._view = View(self._conversation)
        self._seen: set[str] = set()
        state = _base_state(file)
        self._name = as_name(state.get("id"))
        self._model = _agent_model(state)

    def session(self, task_id: str | None = None, outcome: float | None = None) -> Session:
        self._conversation.default_model = self._model
        return self._conversation.session(self._name or "", task_id=task_id, outcome=outcome)

    def take(self, _: InputFile, document: Document) -> tuple[()]:
        """Takes an event; the session is complete only when the file is."""
        self.add(as_object(document.value), document)
        return ()

    def add(self, event: JsonObject, document: Document) -> None:
        event_id = as_name(event.get("id"))
        if event_id in self._seen:
            self._report.skipped["duplicate_event"] += 1
            return
        if event_id:
            self._seen.add(event_id)
            self._name = self._name or event_id
        match event.get("kind"):
            case "SystemPromptEvent":
                self._add_system(event_id, event)
            case "MessageEvent":
                self._add_message(event_id, event, document)
            case "ActionEvent":
                self._add_action(event_id, event, document)
            case "ObservationEvent":
                observation = as_object(event.get("observation"))
                text = "\n".join(filter(None, [_observed(observation), text_of(event.get("extended_content"))]))
                self._add_result(event_id, event, text, _failed(observation))
            case "UserRejectObservation":
                self._add_result(event_id, event, f"Action rejected: {as_text(event.get('rejection_reason'))}", True)
            case "AgentErrorEvent":
                self._add_result(event_id, event, as_text(event.get("error")), True)
            case "Condensation":
                self._condense(event_id, event)
            case "CondensationSummaryEvent":
                self._view.say(event_id, as_text(event.get("summary")))
            case str(kind) if kind in BOOKKEEPING:
                self._learn_model(event)
                self._report.skip("event", kind)
            case kind:
                self._report.meet_unknown(self._conversation.version, kind)

    def _add_system(self, event_id: str | None, event: JsonObject) -> None:
        self._view.pass_by(event_id)
        parts = [as_object(event.get(name)).get("text") for name in ("system_prompt", "dynamic_context")]
        if text := "\n".join(filter(None, map(as_text, parts))):
            self._conversation.system(text)
        self._conversation.tools(openai_tools(event.get("tools")))

    def _add_message(self, event_id: str | None, event: JsonObject, document: Document) -> None:
        message = as_object(event.get("llm_message"))
        if message.get("role") == "assistant":
            self._add_turn(event_id, event, take_apart(message), document)
            return
        texts = [text_of(message.get("content")), text_of(event.get("extended_content"))]
        self._view.say(event_id, "\n".join(filter(None, texts)))

    def _add_action(self, event_id: str | None, event: JsonObject, document: Document) -> None:
        call = as_object(event.get("tool_call"))
        arguments = call.get("arguments")
        written = {
            "content": event.get("thought"),
            "reasoning_content": event.get("reasoning_content"),
            "thinking_blocks": event.get("thinking_blocks"),
        }
        parsed = ParsedCall(
            as_name(event.get("tool_call_id")) or as_name(call.get("id")),
            as_name(call.get("name")) or as_text(event.get("tool_name")),
            arguments if isinstance(arguments, str) else as_object(event.get("action")),
        )
        self._add_turn(event_id, event, take_apart(written)._replace(calls=[parsed]), document)

    def _add_turn(self, event_id: str | None, event: JsonObject, reply: ModelReply, document: Document) -> None:
        self._view.turn(event_id, as_name(event.get("llm_response_id")), None, document, reply)

    def _add_result(self, event_id: str | None, event: JsonObject, text: str, is_error: bool) -> None:
        recorded = as_name(event.get("tool_call_id"))
        if recorded is None:
            self._report.skipped["result_without_call"] += 1
            return
        self._view.result(event_id, self._view.ids.find(recorded), text, is_error)

    def _condense(self, event_id: str | None, event: JsonObject) -> None:
        forgotten = {item for item in as_list(event.get("forgotten_event_ids")) if isinstance(item, str)}
        offset = as_int(event.get("summary_offset"))
        self._view.condense(forgotten, as_text(event.get("summary")), offset, f"{event_id}-summary")

    def _learn_model(self, event: JsonObject) -> None:
        value = as_object(event.get("value"))
        usage = as_object(as_object(value.get("stats")).get("usage_to_metrics") or value.get("usage_to_metrics"))
        agent = as_object(usage.get("default") or usage.get("agent"))
        self._model = self._model or _agent_model(value) or as_name(agent.get("model_name"))


def _base_state(file: InputFile) -> JsonObject:
    path = file.path.parent / "base_state.json"
    if not file.path.is_dir() or not path.is_file():
        return {}
    try:
        return as_object(parse_json(path.read_bytes()))
    except (OSError, ValueError):
        return {}


def _agent_model(state: JsonObject) -> str | None:
    return as_name(as_object(as_object(state.get("agent")).get("llm")).get("model"))


def _observed(observation: JsonObject) -> str:
    """The text as the model got it."""
    text = text_of(observation.get("content"))
    metadata = as_object(observation.get("metadata"))
    output = command_output(text, metadata, as_int(metadata.get("exit_code")))
    if metadata and len(output) > MAX_OUTPUT_CHARS:
        half = (MAX_OUTPUT_CHARS - len(CLIPPED)) // 2
        output = output[:half] + CLIPPED + output[-half:]
    return (ERROR_HEADER if observation.get("is_error") is True else "") + output


def _failed(observation: JsonObject) -> bool:
    code = as_int(observation.get("exit_code"))
    if code is None:
        code = as_int(as_object(observation.get("metadata")).get("exit_code"))
    return observation.get("is_error") is True or code not in (None, 0, STILL_RUNNING)
