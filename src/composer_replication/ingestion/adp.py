"""Agent Data Protocol: `{id, content: [{class_, …}], details}`, one trajectory per object, in lists or JSON lines.

The protocol has no call ids, no responses and no failure flags, so: all actions between two observations are one turn;
the observations after it answer its calls in order, whatever their `source` (datasets disagree about it), and what is
left over is context. A code action becomes a call of `execute_bash`, `execute_ipython_cell` or `execute_<language>`.
Lost: the system prompt, the tools unless `details` has them, reasoning apart from the text, the user's words after a
call that nothing answered.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

from composer_replication.records import JsonObject, content_id

from .chat import as_outcome, model_of_run, openai_tools
from .conversation import Conversation
from .reading import Document, InputFile
from .session import AssistantTurn, Session
from .values import as_list, as_name, as_object, as_text, placeholder

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
    for document in file.documents():
        rows = as_list(document.value) if isinstance(document.value, list) else [document.value]
        for row in rows:
            try:
                session = _session(file, as_object(row), document)
            except RecursionError:
                file.quarantine(document.start, "nested too deeply")
                continue
            if session.turns:
                yield session
            else:
                file.report.skipped["session_without_turns"] += 1


def _session(file: InputFile, row: JsonObject, document: Document) -> Session:
    trajectory = _Trajectory(file, document, as_object(row.get("details")))
    for item in as_list(row.get("content")):
        trajectory.add(as_object(item))
    return trajectory.session(row)


class _Trajectory:
    def __init__(self, file: InputFile, document: Document, details: JsonObject) -> None:
        self._report = file.report
        self._document = document
        self._details = details
        model = as_name(details.get("model_name")) or as_name(details.get("model"))
        self._model = model or model_of_run(details.get("run_id"))
        self._conversation = Conversation(file, AGENT, fidelity="partial")
        self._conversation.tools(openai_tools(details.get("tools")))
        self._turn: AssistantTurn | None = None
        self._open: deque[str] = deque()
        self._count = 0

    def session(self, row: JsonObject) -> Session:
        name = content_id(row.get("id"), self._details.get("run_id"), row.get("content"))
        outcomes = (as_outcome(self._details.get(key)) for key in ("resolved", "reward"))
        return self._conversation.session(
            name,
            task_id=as_name(self._details.get("instance_id")),
            outcome=next((outcome for outcome in outcomes if outcome is not None), None),
        )

    def add(self, item: JsonObject) -> None:
        self._count += 1
        match item.get("class_"):
            case "api_action":
                self._add_call(item, as_text(item.get("function")), as_object(item.get("kwargs")))
            case "code_action":
                self._add_call(item, *_code_call(as_text(item.get("language")), as_text(item.get("content"))))
            case "message_action":
                turn = self._add_description(item)
                self._conversation.add_text(turn, as_text(item.get("content")))
            case str(kind) if kind in OBSERVATIONS:
                self._observe(item, _observed(item))
            case kind:
                self._report.meet_unknown(None, kind)

    def _add_description(self, item: JsonObject) -> AssistantTurn:
        if self._turn is None:
            self._turn, _ = self._conversation.turn(None, self._model, self._document.start, self._document.end)
            self._open.clear()
        self._conversation.add_text(self._turn, as_text(item.get("description")))
        return self._turn

    def _add_call(self, item: JsonObject, name: str, arguments: JsonObject) -> None:
        turn, call_id = self._add_description(item), f"call/{self._count}"
        self._conversation.call(turn, call_id, name, arguments)
        self._open.append(call_id)

    def _observe(self, item: JsonObject, text: str) -> None:
        self._turn = None
        if self._open:
            self._conversation.result(self._open.popleft(), text)
        elif text.strip():
            self._conversation.say(text, role="assistant" if item.get("source") == "agent" else "user")


def _code_call(language: str, code: str) -> tuple[str, JsonObject]:
    if language in SHELLS:
        return "execute_bash", {"command": code}
    return "execute_ipython_cell" if language in PYTHON else f"execute_{language}", {"code": code}


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
