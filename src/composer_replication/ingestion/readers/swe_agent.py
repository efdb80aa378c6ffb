"""SWE-agent trajectories: `trajectories/<user>/<run>/<instance>/<instance>.traj`, and rows of the nebius dataset.

`history` holds the messages in the order in which the model saw them; most of a 1.x file is a copy of it per step.
Steps are read for two things only: attempts that the harness rejected and that are not in the history (known where
the next step's `query` shows the complaint), and observations that a history processor had elided. Other edits of a
processor are counted, the full text stays. 0.x files record no steps' prompts, so elided observations stay whole
there. Actions of 0.x are commands of one shell: they become calls of `bash`. The format has no error flag.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from composer_replication.records import JsonObject, content_id

from ..chat_messages import roles_and_texts, take_apart, text_of
from ..conversation import Conversation
from ..dialogue import Dialogue, ModelReply
from ..documents import maybe_json, outcome_of, read_rows
from ..reading import Document, InputFile
from ..session import AssistantTurn, Said, Session
from ..values import as_list, as_name, as_object, as_objects, as_text, label
from ..written_calls import bash, cut_command, last_block

AGENT = "swe_agent"
DEFAULT_ENVIRONMENTS = frozenset({"main", "swe_main"})
ELIDED = "Old environment output:"
HARNESS_EXITS = ("exit due to ", "exiting due to forfeit")


def recognises(value: Any) -> bool:
    fields = as_object(value)
    if any(_is_trajectory(as_object(attempt)) for attempt in [fields, *as_list(fields.get("attempts"))[:1]]):
        return True
    return isinstance(fields.get("instance_id"), str) and _is_row(as_objects(fields.get("trajectory"))[:1])


def _is_trajectory(fields: JsonObject) -> bool:
    history = as_objects(fields.get("history"))
    has_steps = isinstance(fields.get("trajectory"), list)
    return bool(history) and "agent" in history[0] and (has_steps or "message_type" in history[0])


def _is_row(first: Sequence[JsonObject]) -> bool:
    return bool(first) and "role" in first[0] and "system_prompt" in first[0]


def read(file: InputFile) -> Iterator[Session]:
    return read_rows(file, _sessions)


def _sessions(file: InputFile, document: Document) -> Iterator[Session]:
    fields = as_object(document.value)
    for run in as_objects(fields.get("attempts")) or [fields]:
        is_row = _is_row(as_objects(run.get("trajectory"))[:1])
        yield _row_session(file, document, run) if is_row else _run_session(file, document, run)


def _row_session(file: InputFile, document: Document, row: JsonObject) -> Session:
    conversation = Conversation(file, AGENT)
    dialogue = Dialogue(conversation, document)
    model = as_name(row.get("model_name"))
    messages = file.report.objects(row.get("trajectory"))
    for message in messages:
        text = as_text(message.get("text"))
        match message.get("role"):
            case "system":
                dialogue.system(as_text(message.get("system_prompt")) or text)
            case "ai":
                rest, calls = cut_command(text)
                dialogue.turn(None, model, ModelReply(rest, calls=calls))
            case "user":
                dialogue.answer_or_say(text)
            case role:
                file.report.meet_unknown(None, f"role/{label(role)}")
    task_id = as_name(row.get("instance_id"))
    name = content_id(task_id, model, [[label(item.get("role")), as_text(item.get("text"))] for item in messages])
    return conversation.session(name, task_id=task_id, outcome=outcome_of(row.get("target")))


def _run_session(file: InputFile, document: Document, run: JsonObject) -> Session:
    reader = _Run(file, document, run)
    history = file.report.objects(run.get("history"))
    reader.add(history)
    environment = as_name(run.get("environment"))
    stem, is_traj, _ = file.name.partition(".traj")
    task_id = environment if environment not in DEFAULT_ENVIRONMENTS else None
    name = content_id(environment, roles_and_texts(history))
    return reader.conversation.session(name, task_id=task_id or (stem if is_traj else None))


class _Run:
    """One attempt at one task."""

    def __init__(self, file: InputFile, document: Document, run: JsonObject) -> None:
        self._report = file.report
        self.conversation = Conversation(file, AGENT)
        self.conversation.version = as_name(as_object(run.get("info")).get("swe_agent_version"))
        # 0.x files do not show what a history processor did.
        self.conversation.fidelity = "exact" if self.conversation.version else "reconstructed"
        self._dialogue = Dialogue(self.conversation, document)
        self._model = _model(run)
        self._steps = as_objects(run.get("trajectory"))
        self._step = 0
        self._seen: list[str] = []
        self._calls_of: dict[int, str] = {}
        self._elided: set[str] = set()

    def add(self, history: Sequence[JsonObject]) -> None:
        main = next((message["agent"] for message in history if isinstance(message.get("agent"), str)), None)
        last = next((item for item in reversed(history) if item.get("role") == "assistant"), None)
        for message in history:
            if message.get("agent", main) != main:
                self._report.skipped["subagent"] += 1
                continue
            if message is last and _is_harness_exit(message):
                self._report.skipped["harness_exit"] += 1
                return
            text = text_of(message.get("content"))
            self._add_message(message, text)
            self._seen.append(text)

    def _add_message(self, message: JsonObject, text: str) -> None:
        role = message.get("role")
        if role == "system":
            self._dialogue.system(text)
        elif message.get("is_demo"):
            action = as_text(message.get("action")) if message.get("tool_calls") else ""
            self._dialogue.say("\n".join(filter(None, [text, action])), "assistant" if role == "assistant" else "user")
        elif role == "assistant":
            self._add_turn(message, text)
        elif role in ("tool", "user"):
            self._add_observation(message, text)
        else:
            self._report.meet_unknown(self.conversation.version, f"role/{label(role)}")

    def _add_turn(self, message: JsonObject, text: str) -> None:
        found = next((n for n in range(self._step, len(self._steps)) if _is_step(self._steps[n], message, text)), None)
        rejected: list[Said | AssistantTurn] = []
        if found is not None:
            rejected = self._add_rejected_attempts(range(self._step, found))
            self._clear_elided(found)
            self._step = found + 1
        reply = take_apart(message)
        action = as_text(message.get("action"))
        if not reply.calls and action.strip() and not action.startswith("exit_"):
            reply = ModelReply(_thought(message, reply.text, action), reply.thinking, [bash(action.rstrip("\n"))])
        if reply.calls_are_text:
            self.conversation.fidelity = "reconstructed"
        self._dialogue.turn(None, self._model, reply)
        self._dialogue.forget(rejected)

    def _add_observation(self, message: JsonObject, text: str) -> None:
        ids = [call_id for call_id in as_list(message.get("tool_call_ids")) if isinstance(call_id, str)]
        if ids:
            answered = [self._dialogue.answer(call_id, text) for call_id in ids]
        else:
            answered = [self._dialogue.answer_or_say(text)]
        if answered[0]:
            self._calls_of[len(self._seen)] = answered[0]

    def _add_rejected_attempts(self, steps: range) -> list[Said | AssistantTurn]:
        """Attempts that only the steps record. Each was shown, with the complaint about it, to the next one alone."""
        shown: list[Said | AssistantTurn] = []
        for number in steps:
            step = self._steps[number]
            complaint = _complaint(step, self._steps[number + 1])
            if complaint is None:
                self._report.skipped["step_not_in_history"] += 1
                continue
            self._clear_elided(number)
            reply, action = ModelReply(as_text(step.get("response"))), as_text(step.get("action"))
            if action.strip():
                self.conversation.fidelity = "reconstructed"
                reply = ModelReply(_thought(step, reply.text, action), calls=[bash(action.rstrip("\n"))])
            turn = self._dialogue.turn(None, self._model, reply)
            self._dialogue.answer(None, complaint, is_error=True)
            self._dialogue.forget(shown)
            shown = [turn, self._dialogue.say(complaint)]
        return shown

    def _clear_elided(self, number: int) -> None:
        """What the model saw at a step: `query` (1.1) is the prompt of the step, `messages` (1.0) that of the next."""
        before = self._steps[number - 1] if number else {}
        prompt = as_list(self._steps[number].get("query") or before.get("messages"))
        gone: list[str] = []
        for index, call_id in self._calls_of.items():
            seen = text_of(as_object(prompt[index]).get("content")) if index < len(prompt) else None
            if seen is None or call_id in self._elided or seen == self._seen[index]:
                continue
            if seen.startswith(ELIDED):
                gone.append(call_id)
            else:
                self._report.skipped["edit_of_history_processor"] += 1
                self.conversation.fidelity = "reconstructed"
        if gone:
            self._elided.update(gone)
            self.conversation.fidelity = "reconstructed"
            self.conversation.clear_results(gone)


def _model(run: JsonObject) -> str | None:
    config = as_object(maybe_json(run.get("replay_config")))
    return as_name(as_object(as_object(config.get("agent")).get("model")).get("name"))


def _thought(fields: JsonObject, text: str, action: str) -> str:
    """The text around an action. Some parsers repeat the action as the thought."""
    thought = fields.get("thought")
    if isinstance(thought, str):
        return "" if thought.strip() == action.strip() else thought.strip()
    return (last_block(text) or (text, ""))[0]


def _is_harness_exit(message: JsonObject) -> bool:
    text = text_of(message.get("content")).lower()
    return text.startswith(HARNESS_EXITS) and not message.get("tool_calls")


def _is_step(step: JsonObject, message: JsonObject, text: str) -> bool:
    return step.get("response") == text and as_text(step.get("action")) == as_text(message.get("action"))


def _complaint(step: JsonObject, following: JsonObject) -> str | None:
    """What the harness answered to an attempt: the end of the next prompt."""
    end = [as_object(message) for message in as_list(following.get("query"))[-2:]]
    if len(end) < 2 or end[0].get("role") != "assistant" or end[1].get("role") != "user":
        return None
    return text_of(end[1].get("content")) if text_of(end[0].get("content")) == as_text(step.get("response")) else None
