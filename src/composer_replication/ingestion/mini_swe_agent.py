"""mini-swe-agent trajectories: `<instance>.traj.json`, and dataset rows with its messages.

v0 is a bare list of messages, later files have `info` beside them. v1 writes one bash block per response and reads
the observation as a user message; v2 uses tool calls, of the chat or of the Responses API. Where a v2 response could
not be parsed, the model saw the complaint but not its own words: they are kept in the complaint's `extra`, and become
a turn that later turns do not see. The exit code of a command is recorded. The list of tools is not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from composer_replication.records import JsonObject, content_id

from .conversation import Conversation
from .messages import (
    Dialogue,
    WrittenCall,
    arguments_of,
    function_tags,
    label,
    outcome_of,
    read_runs,
    recorded_calls,
    text_of,
    thinking_of,
)
from .reading import Document, InputFile
from .session import AssistantTurn, Session
from .values import as_int, as_name, as_object, as_objects, as_text

AGENT = "mini_swe_agent"
BASH_BLOCK = re.compile(r"```(?:bash|mswea_bash_command)[ \t]*\n(.*?)\n```", re.DOTALL)
EXIT_CODE = re.compile(r"\s*(?:<exception>.*?</exception>\s*)?<returncode>(-?\d+)</returncode>", re.DOTALL)
FIRST_MESSAGES = 8


def recognises(value: Any) -> bool:
    if isinstance(value, list):
        return _shows_exit_codes(as_objects(value)[:FIRST_MESSAGES])
    fields = as_object(value)
    if as_text(fields.get("trajectory_format")).startswith("mini-swe-agent"):
        return True
    return isinstance(fields.get("messages"), list) and (
        "mini_version" in as_object(fields.get("info"))
        or ("instance_id" in fields and _shows_exit_codes(as_objects(fields["messages"])[:FIRST_MESSAGES]))
    )


def _shows_exit_codes(messages: Sequence[JsonObject]) -> bool:
    contents = [as_text(item.get("content")) for item in messages if item.get("role") in ("user", "tool")]
    return any(EXIT_CODE.match(text) for text in contents)


def read(file: InputFile) -> Iterator[Session]:
    def sessions(document: Document, run: Any) -> Iterator[Session]:
        messages = as_objects(run) or as_objects(as_object(run).get("messages"))
        yield _Run(file, document, as_object(run), messages).session()

    return read_runs(file, sessions)


class _Run:
    def __init__(self, file: InputFile, document: Document, fields: JsonObject, messages: Sequence[JsonObject]) -> None:
        self._report = file.report
        self._fields = fields
        self._messages = messages
        info = as_object(fields.get("info"))
        configured = as_object(as_object(info.get("config")).get("model")).get("model_name")
        self._model = as_name(configured) or as_name(fields.get("model"))
        self._conversation = Conversation(file, AGENT, "exact")
        self._conversation.version = as_name(info.get("mini_version"))
        self._dialogue = Dialogue(self._conversation, document)
        self._calls_are_text = False

    def session(self) -> Session:
        for message in self._messages:
            self._add(message)
        fields = self._fields
        task_id = as_name(fields.get("instance_id"))
        texts = [[label(item.get("role")), text_of(item.get("content"))] for item in self._messages]
        solved = next((fields[key] for key in ("resolved", "verified") if key in fields), None)
        return self._conversation.session(content_id(task_id, texts), task_id=task_id, outcome=outcome_of(solved))

    def _add(self, message: JsonObject) -> None:
        extra = as_object(message.get("extra"))
        text = text_of(message.get("content"))
        if message.get("object") == "response":
            self._add_response(message)
            return
        if message.get("type") == "function_call_output":
            output = text_of(message.get("output"))
            self._dialogue.answer(as_text(message.get("call_id")), output, _failed(extra, output))
            return
        match message.get("role"):
            case "system":
                self._dialogue.system(text)
            case "assistant":
                response = as_object(extra.get("response"))
                self._add_message(self._turn(response), message, text)
            case "tool":
                self._dialogue.answer(as_text(message.get("tool_call_id")), text, _failed(extra, text))
            case "user" if extra.get("interrupt_type") == "FormatError":
                self._add_complaint(extra, text)
            case "user" if self._calls_are_text:
                self._dialogue.answer_open_call(text, _failed(extra, text))
            case "user":
                self._dialogue.say(text)
            case "exit":
                self._report.skipped["exit"] += 1
            case role:
                self._report.meet_unknown(self._conversation.version, f"role/{label(role)}")

    def _turn(self, response: JsonObject) -> AssistantTurn:
        return self._dialogue.turn(as_name(response.get("id")), as_name(response.get("model")) or self._model)

    def _add_message(self, turn: AssistantTurn, message: JsonObject, text: str) -> None:
        self._conversation.add_thinking(turn, thinking_of(message))
        calls = recorded_calls(message)
        self._calls_are_text = False
        if not calls:
            text, written = _written_calls(text)
            calls = [(None, call) for call in written]
            if calls:
                self._calls_are_text = True
                self._conversation.fidelity = "reconstructed"
        self._conversation.add_text(turn, text)
        for call_id, call in calls:
            self._dialogue.call(turn, call_id, call)

    def _add_response(self, response: JsonObject) -> AssistantTurn:
        """A turn of the Responses API, whose items are the parts of one message."""
        turn = self._turn(response)
        self._calls_are_text = False
        for item in as_objects(response.get("output")):
            match item.get("type"):
                case "message":
                    self._conversation.add_text(turn, text_of(item.get("content")))
                case "reasoning":
                    parts = [as_text(part.get("text")) for part in as_objects(item.get("summary"))]
                    self._conversation.add_thinking(turn, "\n\n".join(parts))
                case "function_call":
                    call = WrittenCall(as_text(item.get("name")), arguments_of(item.get("arguments")))
                    self._dialogue.call(turn, as_name(item.get("call_id")) or as_name(item.get("id")), call)
                case kind:
                    self._report.skip("item", label(kind))
        return turn

    def _add_complaint(self, extra: JsonObject, complaint: str) -> None:
        """The harness could not parse a response. If its text is here, it is not among the messages."""
        response = as_object(extra.get("response"))
        choices = as_objects(response.get("choices"))
        if response.get("object") == "response":
            turn = self._add_response(response)
        elif choices:
            message = as_object(choices[0].get("message"))
            turn = self._turn(response)
            self._add_message(turn, message, text_of(message.get("content")))
        elif isinstance(text := extra.get("model_response"), str):
            turn = self._turn(response)
            self._conversation.add_text(turn, text)
        else:
            self._dialogue.say(complaint)
            return
        for call in turn.calls:
            self._dialogue.answer(call.call_id, complaint, is_error=True)
        self._calls_are_text = False
        self._dialogue.say(complaint)
        self._dialogue.forget([turn])


def _written_calls(text: str) -> tuple[str, list[WrittenCall]]:
    blocks = list(BASH_BLOCK.finditer(text))
    if len(blocks) != 1:
        return (text, []) if blocks else function_tags(text)
    block = blocks[0]
    rest = (text[: block.start()] + text[block.end() :]).strip()
    return rest, [WrittenCall("bash", {"command": block.group(1).strip()})]


def _failed(extra: JsonObject, text: str) -> bool:
    code = as_int(extra.get("returncode"))
    if code is None and (match := EXIT_CODE.match(text)):
        code = int(match.group(1)[:20])
    return bool(code) or bool(extra.get("exception_info"))
