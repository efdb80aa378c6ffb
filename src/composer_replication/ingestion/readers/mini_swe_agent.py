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

from ..chat_messages import roles_and_texts, take_apart, text_of
from ..conversation import Conversation
from ..dialogue import Dialogue, ModelReply, ParsedCall, arguments_of
from ..documents import outcome_of, read_rows
from ..reading import Document, InputFile
from ..session import AssistantTurn, Session
from ..values import as_int, as_name, as_object, as_objects, as_text, label
from ..written_calls import bash, cut_calls

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
    return read_rows(file, lambda file, document: [_Run(file, document).session()])


class _Run:
    def __init__(self, file: InputFile, document: Document) -> None:
        self._report = file.report
        fields = self._fields = as_object(document.value)
        self._messages = self._report.objects(document.value) or self._report.objects(fields.get("messages"))
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
        name = content_id(task_id, roles_and_texts(self._messages))
        outcome = outcome_of(fields.get("resolved"), fields.get("verified"))
        return self._conversation.session(name, task_id=task_id, outcome=outcome)

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
                self._add_message(as_object(extra.get("response")), message)
            case "tool":
                self._dialogue.answer(as_text(message.get("tool_call_id")), text, _failed(extra, text))
            case "user" if extra.get("interrupt_type") == "FormatError":
                self._add_complaint(extra, text)
            case "user" if self._calls_are_text:
                self._dialogue.answer_or_say(text, _failed(extra, text))
            case "user":
                self._dialogue.say(text)
            case "exit":
                self._report.skipped["exit"] += 1
            case role:
                self._report.meet_unknown(self._conversation.version, f"role/{label(role)}")

    def _turn(self, response: JsonObject, reply: ModelReply) -> AssistantTurn:
        self._calls_are_text = reply.calls_are_text
        if reply.calls_are_text:
            self._conversation.fidelity = "reconstructed"
        model = as_name(response.get("model")) or self._model
        return self._dialogue.turn(as_name(response.get("id")), model, reply)

    def _add_message(self, response: JsonObject, message: JsonObject) -> AssistantTurn:
        return self._turn(response, take_apart(message, _cut_calls))

    def _add_response(self, response: JsonObject) -> AssistantTurn:
        """A turn of the Responses API, whose items are the parts of one message."""
        turn = self._turn(response, ModelReply())
        for item in as_objects(response.get("output")):
            match item.get("type"):
                case "message":
                    self._conversation.add_text(turn, text_of(item.get("content")))
                case "reasoning":
                    parts = [as_text(part.get("text")) for part in as_objects(item.get("summary"))]
                    self._conversation.add_thinking(turn, "\n\n".join(parts))
                case "function_call":
                    call_id = as_name(item.get("call_id")) or as_name(item.get("id"))
                    call = ParsedCall(call_id, as_text(item.get("name")), arguments_of(item.get("arguments")))
                    self._dialogue.add(turn, ModelReply(calls=[call]))
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
            turn = self._add_message(response, as_object(choices[0].get("message")))
        elif isinstance(text := extra.get("model_response"), str):
            turn = self._turn(response, ModelReply(text))
        else:
            self._dialogue.say(complaint)
            return
        for call in turn.calls:
            self._dialogue.answer(call.call_id, complaint, is_error=True)
        self._calls_are_text = False
        self._dialogue.say(complaint)
        self._dialogue.forget([turn])


def _cut_calls(text: str) -> tuple[str, list[ParsedCall]]:
    blocks = list(BASH_BLOCK.finditer(text))
    if len(blocks) != 1:
        return (text, []) if blocks else cut_calls(text)
    block = blocks[0]
    rest = (text[: block.start()] + text[block.end() :]).strip()
    return rest, [bash(block.group(1).strip())]


def _failed(extra: JsonObject, text: str) -> bool:
    code = as_int(extra.get("returncode"))
    if code is None and (match := EXIT_CODE.match(text)):
        code = int(match.group(1)[:20])
    return bool(code) or bool(extra.get("exception_info"))
