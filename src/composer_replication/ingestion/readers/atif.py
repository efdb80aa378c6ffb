"""ATIF, Harbor's Agent Trajectory Interchange Format (v1.0 to v1.8): `trajectory.json`, written for many agents.

One step of the source `agent` is one turn with its calls and their results. Steps copied from an earlier file and
steps without a model call are history, not turns. Subagents are left out. A system step that replaces the context
restarts the history; the summary is the user step after it. Converters often leave out the system prompt and the
tools, and some spread one response over several steps, so traces are reconstructions. Results carry no error flag of
their own: only what converters put into `extra` (an error mark, an exit code) counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from composer_replication.records import JsonObject, content_id

from ..chat_messages import openai_tools, text_of
from ..conversation import Conversation
from ..dialogue import Dialogue, ModelReply, ParsedCall, arguments_of
from ..documents import maybe_json, outcome_of, read_rows
from ..reading import Document, InputFile
from ..session import AssistantTurn, Session
from ..values import as_int, as_list, as_name, as_object, as_objects, as_text, label
from ..written_calls import cut_calls

AGENT = "atif"
TASK_KEYS = ("task_id", "instance_id", "task_name")
EXIT_CODE_KEYS = ("exit_code", "returncode")


def recognises(value: Any) -> bool:
    fields = as_object(value)
    return as_text(fields.get("schema_version")).startswith("ATIF-v") and isinstance(fields.get("steps"), list)


def read(file: InputFile) -> Iterator[Session]:
    return read_rows(file, lambda file, document: [_Reader(file, document).session()])


class _Result(NamedTuple):
    call_id: str | None
    text: str
    extra: JsonObject


class _Reader:
    def __init__(self, file: InputFile, document: Document) -> None:
        self._report = file.report
        trajectory = self._trajectory = as_object(document.value)
        agent = as_object(trajectory.get("agent"))
        self._model = as_name(agent.get("model_name"))
        self._answers_in_json = as_text(agent.get("name")).startswith("terminus")
        self._conversation = Conversation(file, as_name(agent.get("name")) or AGENT)
        self._conversation.version = as_name(agent.get("version"))
        self._conversation.tools(openai_tools(agent.get("tool_definitions")))
        self._dialogue = Dialogue(self._conversation, document)
        self._context_keys: set[str] = set()
        self._begun = False

    def session(self) -> Session:
        trajectory = self._trajectory
        steps = self._report.objects(trajectory.get("steps"))
        for step in steps:
            self._add(step)
        self._skip_subagents(trajectory.get("subagent_trajectories"))
        extra = as_object(trajectory.get("extra"))
        final = as_object(as_object(trajectory.get("final_metrics")).get("extra"))
        texts = [[label(step.get("source")), text_of(step.get("message"))] for step in steps]
        # A session that goes on in another file keeps its session id there.
        name = (
            as_name(trajectory.get("trajectory_id")) or f"{as_text(trajectory.get('session_id'))}/{content_id(texts)}"
        )
        session = self._conversation.session(
            name,
            task_id=next((extra[key] for key in TASK_KEYS if as_name(extra.get(key))), None),
            outcome=outcome_of(extra.get("reward", final.get("reward"))),
        )
        return session.without(self._context_keys)

    def _add(self, step: JsonObject) -> None:
        text = text_of(step.get("message"))
        match step.get("source"):
            case "system":
                self._add_system(step, text)
            case "user":
                self._dialogue.say(text)
                self._say_results(self._results(step))
            case "agent":
                self._add_turn(step, text)
            case source:
                self._report.meet_unknown(as_name(self._trajectory.get("schema_version")), f"source/{label(source)}")
                return
        self._begun = self._begun or step.get("source") != "system"

    def _add_system(self, step: JsonObject, text: str) -> None:
        management = as_object(as_object(step.get("extra")).get("context_management"))
        if management.get("type") == "compaction" or management.get("boundary") == "replace":
            self._report.skipped["compaction_notice"] += 1
            self._dialogue.restart()
        elif not self._begun:
            self._dialogue.system(text)
        elif text:
            self._dialogue.say(text)
        self._say_results(self._results(step))

    def _add_turn(self, step: JsonObject, text: str) -> None:
        model = as_name(step.get("model_name")) or self._model
        calls = [_call(call) for call in as_objects(step.get("tool_calls"))]
        if not calls:
            text, calls = self._written_calls(text)
        reply = ModelReply(text, as_text(step.get("reasoning_content")), calls)
        turn = self._dialogue.turn(self._context_key(step), model, reply)
        self._answer(turn, [call.call_id for call in calls], self._results(step), as_object(step.get("extra")))

    def _context_key(self, step: JsonObject) -> str | None:
        """Marks an agent step that is no turn here: copied from an earlier file, or made without the model."""
        reason = "copied_context" if step.get("is_copied_context") is True else None
        count = as_int(step.get("llm_call_count"))
        if count == 0:
            reason = reason or "step_without_model_call"
        elif count is not None and count > 1:
            self._conversation.fidelity = "partial"
        if reason is None:
            return None
        self._report.skipped[reason] += 1
        key = f"{reason}/{len(self._context_keys)}"
        self._context_keys.add(key)
        return key

    def _written_calls(self, text: str) -> tuple[str, list[ParsedCall]]:
        if not self._answers_in_json:
            return cut_calls(text)
        answer = as_object(maybe_json(text))
        commands = [command for command in as_objects(answer.get("commands")) if "keystrokes" in command]
        if not commands:
            return text, []
        rest = "\n".join(filter(None, (as_text(answer.get(key)) for key in ("analysis", "plan"))))
        return rest, [ParsedCall(None, "bash_command", command) for command in commands]

    def _results(self, step: JsonObject) -> list[_Result]:
        results: list[_Result] = []
        for result in as_objects(as_object(step.get("observation")).get("results")):
            elsewhere = self._skip_subagents(result.get("subagent_trajectory_ref"))
            if result.get("content") is not None or not elsewhere:
                text = text_of(result.get("content"))
                results.append(_Result(as_name(result.get("source_call_id")), text, as_object(result.get("extra"))))
        return results

    def _skip_subagents(self, value: Any) -> bool:
        found = as_list(value)
        if found:
            self._report.skipped["subagent"] += len(found)
        return bool(found)

    def _answer(
        self, turn: AssistantTurn, recorded: Sequence[str | None], results: Sequence[_Result], extra: JsonObject
    ) -> None:
        """Results by call id. One without an id belongs to the call at its place, a single one to the last call."""
        for place, result in enumerate(results):
            alone = len(turn.calls) == 1
            if result.call_id in recorded and result.call_id:
                call_id = result.call_id
            elif turn.calls and (len(results) == 1 or place < len(turn.calls)) and result.call_id is None:
                call_id = turn.calls[-1 if len(results) == 1 else place].call_id
            else:
                self._say_results([result])
                continue
            self._dialogue.answer(call_id, result.text, _failed(result, extra, call_id, alone))

    def _say_results(self, results: Sequence[_Result]) -> None:
        for result in results:
            if result.text:
                self._dialogue.say(result.text)


def _call(call: JsonObject) -> ParsedCall:
    name = as_text(call.get("function_name"))
    return ParsedCall(as_name(call.get("tool_call_id")), name, arguments_of(call.get("arguments")))


def _failed(result: _Result, step: JsonObject, call_id: str, alone: bool) -> bool:
    """What converters say about one result: beside it, or on the step where the step has one call."""
    details = as_object(as_object(step.get("tool_call_details")).get(call_id))
    notes = [result.extra, details, as_object(details.get("metadata"))]
    if alone:
        notes += [step, as_object(step.get("tool_metadata"))]
    return any(
        note.get("is_error") is True
        or note.get("tool_result_is_error") is True
        or any(as_int(note.get(key)) for key in EXIT_CODE_KEYS)
        for note in notes
    )
