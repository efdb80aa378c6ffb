"""Cline tasks: `tasks/<id>/api_conversation_history.json` of the extension, and session files of the SDK and CLI.

The extension stores the Anthropic messages; before it had native tool calls, a call is an XML tag in the text and its
result a text block that begins with `[tool for '…'] Result:`. What the extension truncated from the history is stored
elsewhere, so nothing marks it here. The SDK stores ids, models and the system prompt, and a compacted session begins
with its summary. The list of tools is in neither.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from composer_replication.records import JsonObject, canonical_json, content_id

from ..chat_messages import text_of
from ..conversation import Conversation
from ..dialogue import Dialogue, ModelReply, ParsedCall, arguments_of
from ..documents import maybe_json, read_rows
from ..reading import Document, InputFile
from ..session import AssistantTurn, Session
from ..values import as_list, as_name, as_object, as_objects, as_text, label, placeholder
from ..written_calls import cut_thinking

AGENT = "cline"
TOOLS = (
    "execute_command read_file write_to_file replace_in_file apply_patch search_files list_files "
    "list_code_definition_names browser_action use_mcp_tool access_mcp_resource ask_followup_question "
    "plan_mode_respond act_mode_respond load_mcp_documentation attempt_completion new_task condense report_bug "
    "new_rule web_fetch focus_chain generate_explanation"
).split()
OPENING = re.compile(rf"<({'|'.join(TOOLS)})>")
PARAMETER = re.compile(r"<([a-z_]+)>")
RESULT_HEADER = re.compile(r"\[([a-z_]+)(?: for .*?)?\] Result:(?:\n|$)", re.DOTALL)
FILE_TEXTS = ("content", "diff")
FUNCTION_RESULTS = ("<function_results>\n", "\n</function_results>")
TASK_TAGS = ("<task>", "<user_message>", "[TASK RESUMPTION]")
FAILURES = ("The tool execution failed with the following error:", "The user denied this operation.")
SUBAGENT_SEPARATOR = "__"


def recognises(value: Any) -> bool:
    if isinstance(value, list):
        return _is_first_message(next(iter(as_objects(value)), {}))
    fields = as_object(value)
    if _is_first_message(fields):
        return True
    return (
        isinstance(fields.get("sessionId"), str)
        and isinstance(fields.get("messages"), list)
        and isinstance(fields.get("agent"), str)
        and ("updated_at" in fields or "system_prompt" in fields)
    )


def _is_first_message(message: JsonObject) -> bool:
    texts = [as_text(block.get("text")) for block in as_objects(message.get("content"))]
    return (
        message.get("role") == "user"
        and any(text.startswith(TASK_TAGS) for text in texts)
        and any("<environment_details>" in text for text in texts)
    )


def read(file: InputFile) -> Iterator[Session]:
    return read_rows(file, _session)


def _session(file: InputFile, document: Document) -> Iterator[Session]:
    fields = as_object(document.value)
    session_id = as_name(fields.get("sessionId"))
    is_subagent = session_id is not None and SUBAGENT_SEPARATOR in session_id
    if is_subagent and file.leaves_out_subagent():
        return
    messages = file.report.objects(document.value) or file.report.objects(fields.get("messages"))
    reader = _Reader(file, document, session_id)
    reader.conversation.is_subagent = is_subagent
    if prompt := as_text(fields.get("system_prompt")):
        reader.dialogue.system(prompt)
    for number, message in enumerate(messages):
        reader.add(message, is_first=number == 0)
    folder = file.path.resolve().parent.name
    task_folder = folder if file.name.startswith("api_conversation_history") and folder.isdigit() else None
    texts = [[label(message.get("role")), canonical_json(message.get("content"))] for message in messages]
    yield reader.conversation.session(session_id or task_folder or content_id(texts))


class _Reader:
    def __init__(self, file: InputFile, document: Document, session_id: str | None) -> None:
        self._report = file.report
        self._session_id = session_id
        self.conversation = Conversation(file, AGENT)
        self.dialogue = Dialogue(self.conversation, document)

    def add(self, message: JsonObject, is_first: bool) -> None:
        content = message.get("content")
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else as_objects(content)
        match message.get("role"):
            case "assistant":
                self._add_turn(message, blocks)
            case "user":
                if as_object(message.get("metadata")).get("kind") == "compaction_summary" and not is_first:
                    self.dialogue.restart()
                self._add_user(blocks)
            case role:
                self._report.meet_unknown(None, f"role/{label(role)}")

    def _add_turn(self, message: JsonObject, blocks: Sequence[JsonObject]) -> None:
        model = as_object(message.get("modelInfo"))
        message_id = as_name(message.get("id"))
        key = f"{self._session_id}/{message_id}" if self._session_id and message_id else None
        turn = self.dialogue.turn(key, as_name(model.get("id")) or as_name(model.get("modelId")))
        for block in blocks:
            match block.get("type"):
                case "text":
                    self._add_text(turn, as_text(block.get("text")))
                case "thinking":
                    self.conversation.add_thinking(turn, as_text(block.get("thinking")))
                case "tool_use":
                    name, arguments = as_text(block.get("name")), arguments_of(block.get("input"))
                    self.dialogue.add(turn, ModelReply(calls=[ParsedCall(as_name(block.get("id")), name, arguments)]))
                case kind:
                    self._report.skip("block", label(kind))

    def _add_text(self, turn: AssistantTurn, text: str) -> None:
        thinking, text = cut_thinking(text)
        rest, calls = _cut_call(text)
        self.dialogue.add(turn, ModelReply(rest, thinking.strip(), calls))

    def _add_user(self, blocks: Sequence[JsonObject]) -> None:
        said: list[str] = []
        waiting = False
        for block in blocks:
            text = _block_text(block)
            header = RESULT_HEADER.match(text)
            if block.get("type") == "tool_result":
                text = _result_text(block.get("content"))
                self.dialogue.answer(as_text(block.get("tool_use_id")), text, _failed(block, text))
            elif header and not text[header.end() :].strip():
                waiting = True
            elif header or waiting or text.startswith(FUNCTION_RESULTS[0]):
                body = text[header.end() :] if header else text
                body = body.removeprefix(FUNCTION_RESULTS[0]).removesuffix(FUNCTION_RESULTS[1])
                self.dialogue.answer_or_say(body, body.startswith(FAILURES))
                waiting = False
            elif text.strip():
                said.append(text)
        if said:
            self.dialogue.say("\n".join(said))


def _cut_call(text: str) -> tuple[str, list[ParsedCall]]:
    """The first tool tag of a text, which is the only one that Cline runs. The last closing tag counts."""
    opening = OPENING.search(text)
    if opening is None:
        return text, []
    name = opening.group(1)
    body, closing, after = text[opening.end() :].rpartition(f"</{name}>")
    if not closing:
        return text, []
    return (text[: opening.start()] + after).strip(), [ParsedCall(None, name, _parameters(body))]


def _parameters(body: str) -> JsonObject:
    """`<key>value</key>` one after the other. A file's text may hold any tag: it ends at its last closing tag."""
    found: dict[str, str] = {}
    at = 0
    while opening := PARAMETER.search(body, at):
        key = opening.group(1)
        find = body.rfind if key in FILE_TEXTS else body.find
        end = find(f"</{key}>", opening.end())
        if end < 0:
            at = opening.end()
            continue
        found[key] = body[opening.end() : end].strip("\n")
        at = end + len(key) + 3
    return found


def _block_text(block: JsonObject) -> str:
    match block.get("type"):
        case "text":
            return as_text(block.get("text"))
        case "file":
            return (
                f'<file_content path="{as_text(block.get("path"))}">\n{as_text(block.get("content"))}\n</file_content>'
            )
        case kind:
            return placeholder(label(kind), canonical_json(block.get("source")))


def _result_text(content: Any) -> str:
    """SDK tools return a list of `{query, result, success}`, which the model gets as JSON."""
    parts = as_list(content)
    if parts and not any(as_object(part).get("type") for part in parts):
        return canonical_json(parts)
    return text_of(content)


def _failed(block: JsonObject, text: str) -> bool:
    if block.get("is_error") is True or text.startswith(FAILURES):
        return True
    content = block.get("content")
    single = as_object(maybe_json(content))
    parts = as_objects(content) or ([single] if single else [])
    return bool(parts) and all(part.get("success") is False for part in parts)
