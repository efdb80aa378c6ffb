"""Agent Data Protocol: `{id, content: [{class_, …}], details}`, one trajectory per object, in lists or JSON lines.

The protocol has no call ids, no responses and no failure flags, so: all actions between two observations are one turn;
the observations after it answer its calls in order, whatever their `source` (datasets disagree about it), and what is
left over is context. A code action becomes a call of `execute_bash`, `execute_ipython_cell` or `execute_<language>`.
Lost: the system prompt, the tools unless `details` has them, reasoning apart from the text, the user's words after a
call that nothing answered.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from composer_replication.records import JsonObject, content_id

from ..chat_messages import openai_tools
from ..conversation import Conversation
from ..dialogue import Dialogue, ModelReply, ParsedCall
from ..documents import model_of_run, outcome_of, read_rows
from ..reading import Document, InputFile
from ..session import AssistantTurn, Session
from ..values import as_list, as_name, as_object, as_text, placeholder

AGENT = "adp"
ACTIONS = frozenset({"api_action", "code_action", "message_action"})
OBSERVATIONS = frozenset({"text_observation", "image_observation", "web_observation"})
SHELLS = frozenset({"bash", "sh", "shell"})
PYTHON = frozenset({"python", "python3", "py"})


def recognises(value: Any) -> bool:
    content = as_list(as_object(value).get("content"))
    kind = as_object(content[0]).get("class_") if content else None
    return isinstance(kind, str) and (kind in ACTIONS or kind in OBSERVATIONS)


def read(file: InputFile) -> Iterator[Session]:
    return read_rows(file, _session, lambda value: as_list(value) if isinstance(value, list) else [value])


def _session(file: InputFile, document: Document) -> Iterator[Session]:
    row = as_object(document.value)
    trajectory = _Trajectory(file, document, as_object(row.get("details")))
    for item in as_list(row.get("content")):
        trajectory.add(as_object(item))
    yield trajectory.session(row)


class _Trajectory:
    def __init__(self, file: InputFile, document: Document, details: JsonObject) -> None:
        self._report = file.report
        self._details = details
        model = as_name(details.get("model_name")) or as_name(details.get("model"))
        self._model = model or model_of_run(details.get("run_id"))
        self._conversation = Conversation(file, AGENT, fidelity="partial")
        self._conversation.tools(openai_tools(details.get("tools")))
        self._dialogue = Dialogue(self._conversation, document)
        self._turn: AssistantTurn | None = None

    def session(self, row: JsonObject) -> Session:
        name = content_id(row.get("id"), self._details.get("run_id"), row.get("content"))
        outcome = outcome_of(self._details.get("resolved"), self._details.get("reward"))
        return self._conversation.session(name, task_id=as_name(self._details.get("instance_id")), outcome=outcome)

    def add(self, item: JsonObject) -> None:
        match item.get("class_"):
            case "api_action":
                self._add(item, ParsedCall(None, as_text(item.get("function")), as_object(item.get("kwargs"))))
            case "code_action":
                self._add(item, _code_call(as_text(item.get("language")), as_text(item.get("content"))))
            case "message_action":
                self._conversation.add_text(self._add(item), as_text(item.get("content")))
            case str(kind) if kind in OBSERVATIONS:
                self._observe(item, _observed(item))
            case kind:
                self._report.meet_unknown(None, kind)

    def _add(self, item: JsonObject, *calls: ParsedCall) -> AssistantTurn:
        if self._turn is None:
            self._turn = self._dialogue.turn(None, self._model)
        self._dialogue.add(self._turn, ModelReply(as_text(item.get("description")), calls=calls))
        return self._turn

    def _observe(self, item: JsonObject, text: str) -> None:
        self._turn = None
        if self._dialogue.answer(None, text) is None and text.strip():
            self._dialogue.say(text, role="assistant" if item.get("source") == "agent" else "user")


def _code_call(language: str, code: str) -> ParsedCall:
    if language in SHELLS:
        return ParsedCall(None, "execute_bash", {"command": code})
    name = "execute_ipython_cell" if language in PYTHON else f"execute_{language}"
    return ParsedCall(None, name, {"code": code})


def _observed(item: JsonObject) -> str:
    match item.get("class_"):
        case "image_observation":
            return placeholder("image", item.get("content"))
        case "web_observation":
            page = as_text(item.get("axtree")) or as_text(item.get("html"))
            image = item.get("image_observation")
            shown = placeholder("image", image) if isinstance(image, dict) else ""
            return "\n".join(filter(None, [as_text(item.get("url")), page, shown]))
        case _:
            return as_text(item.get("content"))
