"""OpenHands before 1.0: events as a saved trajectory (a JSON list), or as `history` in the rows of `output.jsonl`.

An event is an action (`action`, `args`) or an observation (`observation`, `content`, `extras`). A turn is a response of
the model: actions with the same `tool_call_metadata.model_response.id`, whose message holds what the model wrote.
Older files have no such metadata: there each action of the agent is a turn, and a call with the tool's name in later
versions is put together from its arguments. Still older ones have pairs [action, observation], or events without ids.
Observations get the lines that OpenHands added for the model (exit code, working directory). Lost: the system prompt
and the tools, unless there is a `system` action; recalled knowledge is rendered without OpenHands' template. The
resolver's `success` is a guess of a model, so it is no outcome.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from composer_replication.records import JsonObject, content_id

from ..chat_messages import openai_tools, take_apart, text_of
from ..conversation import Conversation
from ..dialogue import ModelReply, ParsedCall
from ..documents import outcome_of, read_row
from ..reading import Document, InputFile
from ..session import AssistantTurn, Session
from ..values import as_int, as_list, as_name, as_object, as_objects, as_text, placeholder
from .openhands_logs import AGENT
from .openhands_v0_events import (
    BOOKKEEPING,
    BOOKKEEPING_OBSERVATIONS,
    RESULTS,
    TOOLS,
    failed,
    is_event,
    is_row,
    observed,
    recalled,
)
from .openhands_view import EventId, View

SUMMARY = "summary"


def recognises(value: Any) -> bool:
    if isinstance(value, list):
        return bool(value) and is_event(as_list(value)[0])
    return is_event(value) or is_row(value)


def read(file: InputFile) -> Iterator[Session]:
    events: list[Any] = []
    end = 0
    for document in file.documents():
        for item in as_list(document.value) or [document.value]:
            if "history" in as_object(item):
                yield from read_row(file, _session, document._replace(value=item))
            else:
                events.append(item)
                end = document.end
    if events:
        yield from read_row(file, _session, Document({"history": events}, 0, end))


def _session(file: InputFile, document: Document) -> Iterator[Session]:
    row = as_object(document.value)
    events = as_list(row.get("history"))
    history = _History(file, document, _row_model(row))
    for item in events:
        for event in as_list(item) or [item]:
            history.add(as_object(event))
    report = as_object(as_object(row.get("test_result")).get("report")) or as_object(row.get("report"))
    yield history.conversation.session(
        content_id(row.get("instance_id"), events), task_id=_task(row), outcome=outcome_of(report.get("resolved"))
    )


class _History:
    def __init__(self, file: InputFile, document: Document, model: str | None) -> None:
        self._report = file.report
        self._document = document
        self._model = model
        self.conversation = Conversation(file, AGENT)
        self._view = View(self.conversation)
        self._ids = self._view.ids
        self._call_of_event: dict[int, str] = {}
        self._responses: dict[str, AssistantTurn] = {}
        self._delegation: str | None = None
        self._waiting: str | None = None
        self._seen: set[int] = set()
        self._count = 0
        self._user_speaks = True

    def add(self, event: JsonObject) -> None:
        self._count += 1
        event_id = as_int(event.get("id"))
        if event_id is not None and event_id in self._seen:
            self._report.skipped["duplicate_event"] += 1
            return
        if event_id is not None:
            self._seen.add(event_id)
        action, observation = event.get("action"), event.get("observation")
        if self._delegation and not (isinstance(observation, str) and self._ends_delegation(event, observation)):
            self._report.skipped["subagent"] += 1
        elif isinstance(action, str):
            self._add_action(event, action, as_object(event.get("args")) or event)
        elif isinstance(observation, str):
            self._add_observation(event, observation, as_object(event.get("extras")) or event)
        else:
            self._report.meet_unknown(self.conversation.version, "event")

    def _add_action(self, event: JsonObject, kind: str, args: JsonObject) -> None:
        event_id = as_int(event.get("id"))
        match kind:
            case "system":
                self._add_system(event_id, args)
            case "message":
                self._add_message(event, args)
            case "condensation":
                self._condense(args)
            case _ if kind in TOOLS and event.get("source") not in ("user", "environment"):
                self._add_call(event, kind, args)
            case "run":
                self._view.say(event_id, f"User executed the command:\n{as_text(args.get('command'))}")
            case _ if kind in BOOKKEEPING or kind in TOOLS:
                self._view.pass_by(event_id)
                self._report.skip("action", kind)
            case _:
                self._report.meet_unknown(self.conversation.version, f"action/{kind}")

    def _add_system(self, event_id: int | None, args: JsonObject) -> None:
        self._view.pass_by(event_id)
        self.conversation.version = self.conversation.version or as_name(args.get("openhands_version"))
        if text := as_text(args.get("content")):
            self.conversation.system(text)
        self.conversation.tools(openai_tools(args.get("tools")))

    def _add_message(self, event: JsonObject, args: JsonObject) -> None:
        event_id, text = as_int(event.get("id")), text_of(args.get("content"))
        source = event.get("source") or ("user" if self._user_speaks else "agent")
        self._user_speaks = source == "agent"
        if source == "agent":
            self._add_response(event, ModelReply(text))
        else:
            images = as_list(args.get("image_urls") or args.get("images_urls"))
            self._view.say(event_id, "\n".join([text, *(placeholder("image", url) for url in images)]))

    def _add_response(self, event: JsonObject, fallback: ModelReply) -> str | None:
        """The response that an action of the agent came from, once; gives the id of the action's call."""
        event_id, metadata = as_int(event.get("id")), as_object(event.get("tool_call_metadata"))
        response, recorded = as_object(metadata.get("model_response")), as_name(metadata.get("tool_call_id"))
        key = as_name(response.get("id"))
        if key and recorded and (known := self._responses.get(key)):
            call_id = self._ids.find(recorded)
            if any(call.call_id == call_id for call in known.calls):
                self._view.part(event_id, known)
                return call_id
        if key in self._responses:
            # Some gateways give every response the same id.
            key = f"{key}/{recorded or self._count}"
        model = as_name(response.get("model")) or self._model
        self._ids.forget_open()
        reply = _reply(response, recorded, as_name(metadata.get("function_name")), fallback)
        turn = self._view.turn(event_id, key, model, self._document, reply)
        if key:
            self._responses[key] = turn
        if recorded:
            return self._ids.find(recorded)
        return turn.calls[0].call_id if turn.calls else None

    def _add_call(self, event: JsonObject, kind: str, args: JsonObject) -> None:
        name, wanted = TOOLS[kind]
        arguments = {key: args[key] for key in wanted if args.get(key) not in (None, "", {}, [])}
        thought = "" if kind == "think" else as_text(args.get("thought"))
        call_id = self._add_response(event, ModelReply(thought, calls=[ParsedCall(None, name, arguments)]))
        event_id = as_int(event.get("id"))
        if call_id and event_id is not None:
            self._call_of_event[event_id] = call_id
        self._waiting = call_id
        self._delegation = call_id if kind == "delegate" else None
        self._user_speaks = kind in ("finish", "reject")

    def _call_for(self, event: JsonObject) -> str | None:
        metadata, cause = as_object(event.get("tool_call_metadata")), as_int(event.get("cause"))
        if recorded := as_name(metadata.get("tool_call_id")):
            return self._ids.find(recorded)
        if cause is not None:
            return self._call_of_event.get(cause)
        return None if "id" in event else self._waiting

    def _ends_delegation(self, event: JsonObject, kind: str) -> bool:
        return kind == "delegate" or self._call_for(event) == self._delegation

    def _add_observation(self, event: JsonObject, kind: str, extras: JsonObject) -> None:
        event_id = as_int(event.get("id"))
        if kind == "recall":
            self._view.say(event_id, recalled(extras))
        elif kind in BOOKKEEPING_OBSERVATIONS:
            self._report.skip("observation", kind)
        elif kind not in RESULTS:
            self._report.meet_unknown(self.conversation.version, f"observation/{kind}")
        else:
            call_id = self._delegation if self._delegation and kind == "delegate" else self._call_for(event)
            self._delegation = None
            text = observed(event, kind, extras)
            if call_id is None:
                source = "\nObserved result of command executed by user:\n" if kind == "run" else ""
                self._view.say(event_id, source + text)
            else:
                self._view.result(event_id, call_id, text, failed(event, kind, extras))
                self._waiting = None

    def _condense(self, args: JsonObject) -> None:
        listed = map(as_int, as_list(args.get("forgotten_event_ids")))
        forgotten: set[EventId] = {number for number in listed if number is not None}
        first, last = as_int(args.get("forgotten_events_start_id")), as_int(args.get("forgotten_events_end_id"))
        if first is not None and last is not None:
            known = self._view.event_ids()
            forgotten |= {number for number in known if isinstance(number, int) and first <= number <= last}
        summary, offset = as_text(args.get("summary")), as_int(args.get("summary_offset"))
        if summary:
            forgotten.add(SUMMARY)
        self._view.condense(forgotten, summary, offset, SUMMARY)


def _reply(response: JsonObject, recorded: str | None, name: str | None, fallback: ModelReply) -> ModelReply:
    """What the model wrote, where the file has it; else what the action tells of it."""
    choices = as_objects(response.get("choices"))
    reply = take_apart(as_object(choices[0].get("message"))) if choices else fallback
    calls = reply.calls or fallback.calls
    if recorded and not any(call.call_id == recorded for call in calls):
        made_up = [ParsedCall(recorded, name or call.name, call.arguments) for call in fallback.calls]
        calls = [*(call for call in calls if call.call_id), *made_up]
    return reply._replace(calls=calls)


def _row_model(row: JsonObject) -> str | None:
    return as_name(as_object(as_object(row.get("metadata")).get("llm_config")).get("model"))


def _task(row: JsonObject) -> str | None:
    issue = as_object(row.get("issue"))
    owner, repo, number = issue.get("owner"), issue.get("repo"), issue.get("number")
    named = isinstance(owner, str) and isinstance(repo, str) and isinstance(number, int)
    return as_name(row.get("instance_id")) or (f"{owner}/{repo}#{number}" if named else None)
