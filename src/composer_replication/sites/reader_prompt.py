"""What the reader is asked, and which of its answers are believed. The user's words and the turn are hostile text.

Each stands only between its own fence lines of `llm/fence.py`. The answer is a JSON object with a kind and a quote. It is
checked, never repaired: a criticism must be quoted from the user's words, so what the agent wrote can never be one.
"""

from __future__ import annotations

from typing import NamedTuple

from composer_replication.llm.chat import json_request
from composer_replication.llm.fence import FENCE_RULE, fenced, neutralise
from composer_replication.records import ErrorKind, JsonObject, Trace, digest_of, json_object, render_action

from .spoken import MAX_CHARS

PROMPT_VERSION = 2
"""Part of the cache key and of the detector's name. Raise it with every change of the words below."""
MAX_TURN_CHARS = 1500
MIN_QUOTE_CHARS = 4
"""A shorter quote says nothing, unless the user said no more than that."""
REPLY_TOKENS = 256
KINDS: tuple[ErrorKind, ...] = ("style", "communication", "effort", "correction")
NONE = "none"

SYSTEM = (
    "You help to train a coding agent. You are shown one step of a recorded session and what the user said right after "
    "it. Decide whether these words find fault with that step: whether they say or show that something the agent did, "
    "said, proposed or left out is wrong, unwanted or not enough, and of which kind the fault is.\n"
    "style: the form of the code or text it wrote, such as naming, comments, formatting, or rules and conventions of "
    "the user or the project that it broke.\n"
    "communication: how it spoke to the user, such as too long, too vague, wrong tone, not answering the question, "
    "claiming what is not so, asking too much or too little.\n"
    "effort: too little or too much work, such as stopping early, leaving things unchecked, guessing instead of looking, "
    "taking shortcuts, or doing more than was asked for.\n"
    "correction: any other fault, such as the wrong place, thing or way, a result that does not work, something that the "
    "user does not want, or a proposal that the user overrules. A doubting question counts if it says what is wrong or "
    "what would be right.\n"
    "none: everything else, such as a new task or an addition to it, a plain question, an answer to the agent's question "
    "or the choice of one of its options, consent, thanks, or facts without blame.\n"
    "If several fit, take the one that the user minds most. In doubt, take none.\n"
    f"There are two records, the step of the agent and the words of the user. {FENCE_RULE}\n"
    'Answer with a JSON object of two fields, {"kind": "style" or "communication" or "effort" or "correction" or '
    '"none", "quote": "..."}. The quote is the criticism, at most 20 words copied letter by letter from the user\'s '
    "words, and empty for none."
)
ANSWER_SCHEMA: JsonObject = {
    "type": "object",
    "properties": {"kind": {"type": "string", "enum": [*KINDS, NONE]}, "quote": {"type": "string"}},
    "required": ["kind", "quote"],
    "additionalProperties": False,
}


class ReaderQuestion(NamedTuple):
    """What the user said and about which turn: cleaned, cut, and the same on every machine."""

    words: str
    turn: str

    @classmethod
    def of(cls, trace: Trace, turn: int, words: str) -> ReaderQuestion:
        action = render_action(trace.messages[trace.turns[turn].start])
        return cls(neutralise(words, MAX_CHARS), neutralise(action, MAX_TURN_CHARS))

    def key(self, model: str) -> str:
        """What an answer is filed under. The fence, the server, the session and every path stay out of it."""
        return digest_of({"asks": "reader", "prompt": PROMPT_VERSION, "model": model, **self._asdict()})

    def request(self, model: str) -> JsonObject:
        # Two fences: the agent's text cannot pass for the user's.
        step, words = f"The step of the agent:\n{fenced(self.turn)}", f"The words of the user:\n{fenced(self.words)}"
        asked = f"{step}\n\n{words}\n\nThe JSON object:"
        return json_request(model, SYSTEM, asked, answer="criticism", schema=ANSWER_SCHEMA, max_tokens=REPLY_TOKENS)


class ReaderVerdict(NamedTuple):
    """The kind of a criticism, None where the words hold none; or why the answer is not used."""

    kind: ErrorKind | None
    refused: str = ""


def read_answer(text: str, words: str) -> ReaderVerdict:
    """The verdict in an answer. `words` are the user's as they were shown: no others can be quoted."""
    fields = json_object(text) or {}
    quote = fields.get("quote")
    if set(fields) != {"kind", "quote"} or not isinstance(quote, str):
        return ReaderVerdict(None, "not_json")
    if fields["kind"] == NONE:
        return ReaderVerdict(None)
    if fields["kind"] not in KINDS:
        return ReaderVerdict(None, "unknown_kind")
    reason = _fault(" ".join(quote.split()), " ".join(words.split()))
    return ReaderVerdict(None, reason) if reason else ReaderVerdict(fields["kind"])


def _fault(quote: str, words: str) -> str:
    if len(quote) < MIN_QUOTE_CHARS and quote != words:
        return "quote_too_short"
    return "" if quote in words else "quote_not_found"
