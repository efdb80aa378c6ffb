"""What the judge is asked, and which of its answers are believed. Everything from the trace is hostile text.

Trace text stands only between the fence lines of `llm/fence.py`. The answer is a JSON object with one field; it is
checked, never repaired: an answer that is too long, has a third sentence, carries links, code or hidden characters, or
copies the record is not used.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from composer_replication.llm.chat import json_request
from composer_replication.llm.fence import FENCE_RULE, fenced, is_hidden, neutralise
from composer_replication.records import JsonObject, Message, Trace, digest_of, json_object, render_action

from .wording import PIECE, PREFIX, fits, sentences

PROMPT_VERSION = 1
"""Part of the cache key. Raise it with every change of the words below."""
MAX_ERROR_CHARS = 1500
MAX_EXCERPT_CHARS = 6000
MAX_TOOLS = 24
MAX_SENTENCES = 2
REPLY_TOKENS = 256
COPIED_PIECES = 8
EXCERPT_MESSAGES = 4
MESSAGE_CHARS = 700
ACTION_CHARS = 1500

SYSTEM = (
    "You help to train a coding agent. You are shown one step of a recorded session in which something went wrong. "
    "Write a reminder that, read just before that step, would have led the agent to a better one.\n"
    "Rules for the reminder: one or two sentences, at most 60 words, in plain text. It is about this step, not "
    "about the whole task. It names the behaviour that is wanted. It does not contain the right call, command, code or "
    "answer, and it does not repeat what the agent wrote. No links and no markup.\n"
    f"{FENCE_RULE}\n"
    'Answer with a JSON object of one field, {"hint": "..."}. Leave the text empty if no reminder would help.'
)
ANSWER_SCHEMA: JsonObject = {
    "type": "object",
    "properties": {"hint": {"type": "string"}},
    "required": ["hint"],
    "additionalProperties": False,
}


def excerpt_of(trace: Trace, turn: int) -> str:
    """The end of a session as the judge reads it: the last request of the user, the messages just before the turn, and
    what the actor did, each cut."""
    history = trace.history(turn)
    recent = history[-EXCERPT_MESSAGES:]
    asked = next((message for message in reversed(history) if message["role"] == "user"), None)
    shown = recent if asked is None or asked in recent else [asked, *recent]
    action = render_action(trace.messages[trace.turns[turn].start])
    return "\n".join([*map(_line, shown), f"agent, the step to correct: {_cut(action, ACTION_CHARS)}"])


def _line(message: Message) -> str:
    text = render_action(message) if message["role"] == "assistant" else message["content"]
    return f"{'agent' if message['role'] == 'assistant' else message['role']}: {_cut(text, MESSAGE_CHARS)}"


def _cut(text: str, max_chars: int) -> str:
    return text if len(text) <= max_chars else f"{text[: max_chars // 2]} … {text[-max_chars // 2 :]}"


class JudgeQuestion(NamedTuple):
    """One error as the judge sees it: cleaned, cut, and the same on every machine."""

    kind: str
    tool: str
    tools: str
    error: str
    excerpt: str

    @classmethod
    def of(cls, error_kind: str, error_meta: dict[str, Any]) -> JudgeQuestion:
        """Named texts only: an object that found its way into the meta would bring its address with it."""
        names = [str(name) for name in error_meta.get("available_tools", [])][:MAX_TOOLS]
        return cls(
            kind=error_kind,
            tool=neutralise(error_meta.get("tool_name"), 80),
            tools=neutralise(", ".join(names), 800),
            error=neutralise(error_meta.get("error_message"), MAX_ERROR_CHARS),
            excerpt=neutralise(error_meta.get("state_excerpt"), MAX_EXCERPT_CHARS),
        )

    @property
    def record(self) -> str:
        parts = {"tool": self.tool, "tools": self.tools, "error": self.error, "session": self.excerpt}
        return "\n\n".join(f"{name}:\n{text}" for name, text in parts.items() if text)

    def key(self, model: str) -> str:
        """What an answer is filed under. The fence, the server and every path stay out of it."""
        return digest_of({"prompt": PROMPT_VERSION, "model": model, **self._asdict()})

    def request(self, model: str) -> JsonObject:
        asked = f"Kind of problem: {self.kind}\n\n{fenced(self.record)}\n\nThe JSON object:"
        return json_request(model, SYSTEM, asked, answer="hint", schema=ANSWER_SCHEMA, max_tokens=REPLY_TOKENS)


class JudgeVerdict(NamedTuple):
    """A hint, or why the answer is not used."""

    hint: str | None
    reason: str = ""


_LINKS_OR_CODE = re.compile(r"https?:|www\.|`|\$\(|<[|/a-zA-Z!]|\[/?INST|\bRECORD\b|\bEND\b")
_ORDERS = re.compile(
    r"\b(?:ignore|disregard|forget|override)\b.{0,40}\b(?:instruction|rule|prompt|above|previous|prior)|system prompt",
    re.IGNORECASE,
)
_ABBREVIATION = re.compile(r"\b(?:e\.g|i\.e|etc|vs|cf)\.", re.IGNORECASE)


def read_answer(text: str, question: JudgeQuestion, max_tokens: int) -> JudgeVerdict:
    """The hint in an answer, if it keeps every rule."""
    fields = json_object(text) or {}
    said = fields.get("hint")
    if set(fields) != {"hint"} or not isinstance(said, str):
        return JudgeVerdict(None, "not_json")
    said = said.strip()
    if not said:
        return JudgeVerdict(None, "nothing_to_say")
    hint = said if said.startswith(PREFIX) else PREFIX + said
    reason = _fault(hint, question, max_tokens)
    return JudgeVerdict(None, reason) if reason else JudgeVerdict(hint)


def _fault(hint: str, question: JudgeQuestion, max_tokens: int) -> str:
    if any(is_hidden(character) for character in hint):
        return "hidden_characters"
    if not fits(hint, max_tokens):
        return "too_long"
    if len(sentences(_ABBREVIATION.sub("etc", hint))) > MAX_SENTENCES:
        return "too_many_sentences"
    if _LINKS_OR_CODE.search(hint):
        return "links_or_code"
    if _ORDERS.search(hint):
        return "orders"
    return "copies_the_record" if _copies(hint, question.record) else ""


def _copies(hint: str, record: str) -> bool:
    said = PIECE.findall(hint.lower())
    read = f" {' '.join(PIECE.findall(record.lower()))} "
    stretches = (said[start : start + COPIED_PIECES] for start in range(len(said) - COPIED_PIECES + 1))
    return any(f" {' '.join(stretch)} " in read for stretch in stretches)
