"""Codex CLI rollouts: `~/.codex/sessions/<year>/<month>/<day>/rollout-<time>-<id>.jsonl`, also `.zst`.

The `response_item` records are what the model was sent and what it answered; most `event_msg` records repeat them for
the screen. One model call ends with the `token_count` event that brings new totals. A compaction brings the history
that replaces the old one. Sessions of subagents, reviews and the guardian are read only with `--subagents`. Lost:
encrypted reasoning and summaries, the tool list, results of searches that ran at the provider. Developer messages come
as the user's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

from composer_replication.records import JsonObject

from ..conversation import Conversation
from ..documents import feed
from ..reading import InputFile, RawLine
from ..session import AssistantTurn, Said, Session
from ..values import as_int, as_list, as_name, as_object, as_objects, as_text, placeholder
from .codex_items import call_of, event_failed, is_context, is_subagent, output_failed, output_of, reasoning_of, text_of

AGENT = "codex"
CALLS = frozenset({
    "function_call", "custom_tool_call", "local_shell_call", "web_search_call", "image_generation_call",
    "tool_search_call",
})  # fmt: skip
OUTPUTS = frozenset({"function_call_output", "custom_tool_call_output", "tool_search_output"})
ITEMS = frozenset({"message", "reasoning", "agent_message", *CALLS, *OUTPUTS})
BOOKKEEPING_ITEMS = frozenset({"compaction", "compaction_summary", "context_compaction", "ghost_snapshot", "other"})
BOOKKEEPING = frozenset({"world_state", "inter_agent_communication_metadata", "security_risk_score", "state"})
CALL_EVENTS = frozenset({
    "exec_command_end", "patch_apply_end", "mcp_tool_call_end", "dynamic_tool_call_response",
})  # fmt: skip
KNOWN_EVENTS = frozenset({
    "user_message", "agent_message", "agent_reasoning", "agent_reasoning_section_break", "task_started",
    "task_complete", "turn_started", "turn_complete", "turn_aborted", "entered_review_mode", "context_compacted",
    "web_search_begin", "web_search_end", "image_generation_end", "sub_agent_activity", "thread_settings_applied",
    "thread_goal_updated", "thread_name_updated", "view_image_tool_call", "collab_agent_spawn_end",
    "collab_agent_interaction_end", "collab_waiting_end", "collab_close_end", "collab_resume_end", "plan_update",
    "dynamic_tool_call_request", "error", "warning", "stream_error", "guardian_assessment", "guardian_warning",
    "model_reroute", "background_event", "undo_started", "undo_completed", "turn_diff", "session_configured",
    "item_started", "patch_apply_begin", "exec_command_begin", "mcp_tool_call_begin", "deprecation_notice",
})  # fmt: skip
ROLLOUT_TYPES = frozenset({"session_meta", "response_item", "event_msg", "turn_context", "compacted", "world_state"})
# Shorter ids come from local servers, which count from zero in each response.
LONG_ID = 16


def recognises(record: Any) -> bool:
    fields = as_object(record)
    if isinstance(fields.get("payload"), dict):
        return as_text(fields.get("type")) in ROLLOUT_TYPES and isinstance(fields.get("timestamp"), str)
    return _is_bare_meta(fields) or fields == {"record_type": "state"}


def _is_bare_meta(fields: JsonObject) -> bool:
    """The first line of rollouts written before September 2025, which had no envelope."""
    return {"id", "timestamp", "instructions"} <= fields.keys() and "type" not in fields


def read(file: InputFile) -> Iterator[Session]:
    """One session, or none when it is a subagent's and these are not wanted."""
    reader = _Reader(file)
    feed(file, reader.add)
    if reader.is_left_out:
        return
    yield reader.session()


class _Entry(NamedTuple):
    """An entry of the history as `thread_rolled_back` counts it."""

    kind: Literal["prompt", "context", "model"]
    said: Said | None = None


class _Reader:
    def __init__(self, file: InputFile) -> None:
        self._file = file
        self._report = file.report
        self._conversation = Conversation(file, AGENT)
        self._name: str | None = None
        self._file_stem = file.path.name.split(".")[0]
        self._has_meta = False
        self.is_left_out = False
        self._model: str | None = None
        self._round: str | None = None
        self._turn: AssistantTurn | None = None
        self._thinking: list[str] = []
        self._usage: Any = None
        self._history: list[_Entry] = []
        self._failed: dict[str, bool] = {}
        self._ids: dict[str, str] = {}
        self._uses: Counter[str] = Counter()
        self._search = ""
        self._after_review = False
        self._number = 0

    def session(self) -> Session:
        self._close()
        return self._conversation.session(self._name or self._file_stem)

    def add(self, line: RawLine, record: JsonObject) -> None:
        if self.is_left_out:
            return
        kind, payload = _unwrap(record)
        match kind:
            case "response_item":
                self._add_item(line, payload)
            case "event_msg":
                self._add_event(payload)
            case "turn_context":
                self._begin_round(payload)
            case "session_meta":
                self._add_meta(payload)
            case "compacted":
                self._compact(payload)
            case "inter_agent_communication":
                self._say("prompt", as_text(payload.get("content")))
            case _ if kind in BOOKKEEPING:
                self._report.skipped[kind] += 1
            case _:
                self._report.meet_unknown(self._conversation.version, kind)

    def _add_meta(self, meta: JsonObject) -> None:
        """The first one counts: a fork copies its parent's records, its parent's meta among them."""
        if self._has_meta:
            self._report.skipped["session_meta_of_parent"] += 1
            return
        self._has_meta = True
        self._name = as_name(meta.get("id"))
        self._conversation.version = as_name(meta.get("cli_version"))
        self._conversation.is_subagent = is_subagent(meta)
        self.is_left_out = self._conversation.is_subagent and self._file.leaves_out_subagent()
        prompt = as_text(as_object(meta.get("base_instructions")).get("text"))
        if prompt.strip():
            self._conversation.system(prompt)

    def _begin_round(self, context: JsonObject) -> None:
        self._model = as_name(context.get("model")) or self._model
        round_id = as_name(context.get("turn_id"))
        if round_id != self._round:
            self._round, self._number = round_id, 0

    def _add_item(self, line: RawLine, item: JsonObject) -> None:
        kind = as_text(item.get("type"))
        after_review, self._after_review = self._after_review, False
        if kind == "message" and item.get("role") == "assistant":
            if after_review:
                self._say_as_model(text_of(item.get("content")))
            else:
                self._add_text(line, item)
        elif kind == "message":
            self._add_message(item)
        elif kind == "agent_message":
            self._say("prompt", text_of(item.get("content")))
        elif kind == "reasoning":
            self._think(reasoning_of(item))
        elif kind in CALLS:
            self._add_call(line, item)
        elif kind in OUTPUTS:
            self._add_output(item)
        elif kind in BOOKKEEPING_ITEMS:
            self._report.skip("response_item", kind)
        else:
            self._report.meet_unknown(self._conversation.version, f"response_item/{kind}")

    def _add_message(self, item: JsonObject) -> None:
        role, content = as_text(item.get("role")), item.get("content")
        is_prompt = role == "user" and not is_context(role, content)
        self._say("prompt" if is_prompt else "context" if is_context(role, content) else "model", text_of(content))

    def _say(self, kind: Literal["prompt", "context", "model"], text: str) -> None:
        self._close()
        if text.strip():
            self._history.append(_Entry(kind, self._conversation.say(text)))

    def _say_as_model(self, text: str) -> None:
        """An assistant message that the model of this session did not write."""
        if text.strip():
            self._conversation.say(text, role="assistant")
            self._history.append(_Entry("model"))

    def _open(self, line: RawLine, item_id: str | None) -> AssistantTurn:
        if self._turn is None:
            self._number += 1
            own = item_id if item_id and len(item_id) >= LONG_ID else None
            key = own or (f"{self._round}/{self._number}" if self._round else None)
            self._turn, _ = self._conversation.turn(key, self._model, line.start, line.end)
            self._history.append(_Entry("model"))
        self._turn.end = line.end
        for text in self._thinking:
            self._conversation.add_thinking(self._turn, text)
        self._thinking.clear()
        return self._turn

    def _close(self) -> None:
        """The end of a model call. Reasoning that led to nothing belongs to a call that was cut off."""
        if self._thinking and self._turn:
            for text in self._thinking:
                self._conversation.add_thinking(self._turn, text)
        elif self._thinking:
            self._report.skipped["reasoning_without_action"] += 1
        self._thinking.clear()
        self._turn = None

    def _think(self, texts: list[str]) -> None:
        """Reasoning of open models comes as an event and sometimes in the item as well."""
        self._thinking += [text for text in texts if text and text not in self._thinking]

    def _add_text(self, line: RawLine, item: JsonObject) -> None:
        turn = self._open(line, as_name(item.get("id")))
        content = item.get("content")
        for part in [content] if isinstance(content, str) else as_list(content):
            self._conversation.add_text(turn, text_of([part]))

    def _add_call(self, line: RawLine, item: JsonObject) -> None:
        name, arguments = call_of(item)
        given = as_name(item.get("call_id")) or as_name(item.get("id")) or f"{item.get('type')}/{line.start}"
        turn = self._open(line, as_name(item.get("id")) or as_name(item.get("call_id")))
        self._uses[given] += 1
        call_id = self._ids[given] = given if self._uses[given] == 1 else f"{given}/{self._uses[given]}"
        self._conversation.call(turn, call_id, name, arguments)
        if name == "tool_search":
            self._search = given
        if item.get("type") in ("web_search_call", "image_generation_call"):
            note = f"[{name} ran at the provider; its result is not recorded]"
            self._conversation.result(call_id, note, item.get("status") == "failed")

    def _add_output(self, item: JsonObject) -> None:
        given = as_name(item.get("call_id"))
        if given:
            self._close()
        else:
            # A search at the provider: call and output are parts of one response and have no id.
            given = self._search
        text = output_of(item)
        failed = output_failed(item, text)
        if failed is None:
            failed = self._failed.get(given, False)
        self._conversation.result(self._ids.get(given, given), text, failed)

    def _add_event(self, event: JsonObject) -> None:
        kind = as_text(event.get("type"))
        self._after_review = self._after_review or kind == "exited_review_mode"
        if kind == "token_count":
            self._count_tokens(event.get("info"))
        elif kind == "thread_rolled_back":
            self._roll_back(as_int(event.get("num_turns")) or 0)
        elif kind == "agent_reasoning_raw_content":
            self._think([as_text(event.get("text"))])
        elif kind in CALL_EVENTS:
            self._note_failure(as_name(event.get("call_id")), event)
        elif kind == "item_completed":
            self._add_completed(as_object(event.get("item")))
        elif kind in KNOWN_EVENTS or kind == "exited_review_mode":
            self._report.skip("event_msg", kind)
        else:
            self._report.meet_unknown(self._conversation.version, f"event_msg/{kind}")

    def _count_tokens(self, info: Any) -> None:
        """Totals that did not change come with news about rate limits, also in the middle of a model call."""
        if isinstance(info, dict) and info != self._usage:
            self._usage = info
            self._close()

    def _add_completed(self, item: JsonObject) -> None:
        """From 0.147 on some sessions record finished items in place of events; calls keep their ids."""
        kind = item.get("type")
        self._after_review = self._after_review or kind == "ExitedReviewMode"
        if kind == "Reasoning":
            self._think([as_text(text) for text in as_list(item.get("raw_content"))])
        self._note_failure(as_name(item.get("id")), item)
        self._report.skip("item_completed", kind)

    def _note_failure(self, call_id: str | None, event: JsonObject) -> None:
        if call_id:
            self._failed[call_id] = event_failed(event)

    def _roll_back(self, rounds: int) -> None:
        """The user took back the last prompts; context that was sent just before them goes as well."""
        self._close()
        prompts = [place for place, entry in enumerate(self._history) if entry.kind == "prompt"]
        if rounds < 1 or not prompts:
            self._report.skipped["empty_rollback"] += 1
            return
        cut = prompts[max(len(prompts) - rounds, 0)]
        while cut > prompts[0] and self._history[cut - 1].kind == "context":
            cut -= 1
        if said := self._history[cut].said:
            self._conversation.rewind(said)
        del self._history[cut:]

    def _compact(self, payload: JsonObject) -> None:
        """Older versions record the summary only: the user's messages stayed, the rest went."""
        self._close()
        replacement = payload.get("replacement_history")
        if not isinstance(replacement, list):
            self._conversation.restart([entry.said for entry in self._history if entry.said])
            self._conversation.say(as_text(payload.get("message")) or "(no summary available)")
            return
        self._conversation.restart()
        for item in as_objects(replacement):
            self._replace(item)

    def _replace(self, item: JsonObject) -> None:
        kind, role = item.get("type"), item.get("role")
        text = text_of(item.get("content"))
        if kind in ("message", "agent_message") and text.strip():
            self._conversation.say(text, role="assistant" if role == "assistant" else "user")
        elif kind in ("compaction", "compaction_summary", "context_compaction"):
            self._conversation.say(placeholder("encrypted summary of the conversation so far", item))
        else:
            self._report.skip("replacement_history", kind)


def _unwrap(record: JsonObject) -> tuple[str, JsonObject]:
    payload = record.get("payload")
    if isinstance(payload, dict):
        return as_text(record.get("type")), as_object(payload)
    if as_text(record.get("type")) in ITEMS:
        return "response_item", record
    if _is_bare_meta(record):
        return "session_meta", record
    return as_text(record.get("type") or record.get("record_type")), {}
