"""The user's own corrections: which of the messages that people wrote find fault with the turn before.

Rules over single sentences, few and general: a prohibition, a redirection, a report that the work fails, a verdict, a
doubt that names what is wrong. A message that comes with a stop or a refused call needs less. Most corrections are worded
in ways that no rule finds; those need a reader, see `reader.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from composer_replication.records import ErrorKind, ErrorSite, Fault, Trace, content_id

from .spoken import MAX_CHARS, Spoken, spoken

RULE_CONFIDENCE = 0.7
OPENING_CHARS = 800
"""What a user minds stands at the beginning; behind it come pasted plans, logs and code."""
_NOT = r"(?:n'?t|\bnot)"
_OPENER = r"^(?:(?:please|and|but|so|also|hmm+|wait|well|ok(?:ay)?|for now|actually|oh|ah|yes|yeah|no|q)[,.:]?\s+)*"


class Rule(NamedTuple):
    name: str
    pattern: re.Pattern[str]
    kind: ErrorKind = "correction"


def _rule(name: str, pattern: str, kind: ErrorKind = "correction") -> Rule:
    return Rule(name, re.compile(pattern, re.IGNORECASE), kind)


RULES: tuple[Rule, ...] = (
    _rule("wording", r"\btoo (?:verbose|long|wordy|much text)\b|\b(?:be|more) (?:concise|brief)\b|"
          r"\bshorter,? (?:answers?|please)|\b(?:stop|do(?:n'?t| not)|no need to) (?:explain|apologi[sz]|summari[sz]|repeat)",
          "communication"),
    _rule("conventions", r"\b(?:do(?:n'?t| not)|stop|never|no) (?:\w+ )?(?:more )?(?:comments?|emojis?|docstrings?|markdown)\b|"
          r"\b(?:match|follow|keep to) (?:the )?(?:existing|our|project'?s?) (?:style|conventions?|patterns?|naming)|"
          r"\b(?:wrong|bad|poor|confusing) (?:name|naming|style|formatting)", "style"),
    _rule("half_done", r"\byou (?:did(?:n'?t| not)|have(?:n'?t| not)|forgot to|skipped|stopped before) (?:finish|complet|test|run|"
          r"check|verif|read|look)|\byou'?re not done|\bover-?engineer", "effort"),
    _rule("unwanted", rf"(?:^|[,.;:!] |\b(?:and|but|because|since|hmm) )(?:i|we) (?:really )?(?:do|did) ?{_NOT} (?:really )?"
          r"(?:want|need|like|ask|mean|say)"),
    _rule("meant", r"\bi meant\b|\bi mean\b|\bi (?:said|asked (?:you )?(?:to|for))\b|\bi'?m (?:talking|asking) about\b|"
          r"\blike i'?m? (?:said|saying)|^no\b[,.]? (?!problem|worries|need|.*\b(?:fine|good|ok|okay|right)\b)\w+"),
    _rule("contrast", r", not (?:the|an?|just|in|on|to|from)\b"),
    _rule("instead", r"^(?!(?:do|does|is|are|what|how|which|where)\b).*\b(?:instead|rather than)\b|\bi(?:'d| would) (?:replace|rename|move|prefer|rather|remove|change)\b"),
    _rule("already", rf"{_OPENER}(?:there(?:'s| is| are) already|we already (?:have|do|did))\b"),
    _rule("ought", r"^(?!should|what|how|which|where|when|can|could|would|do|does|is|are)[^?]*(?<!we )(?<!i )"
          r"\b(?:should(?:n'?t)?|must|(?:is|are|was|were) supposed to|needs? to) (?:not |always |only |just |still |also )?"
          r"\w+[^?]*$"),
    _rule("fails", r"\bstill (?:\w+ ){0,3}(?:not|fail|broken|wrong|error|miss|the same)|\b(?:is|are|it'?s) still \w+ing\b|"
          rf"\b(?:is|are|was|ends? up) ?{_NOT} \w+ing\b|"
          rf"\b(?:is|are|does|do|did|was|ca|could|wo) ?{_NOT} (?:\w+ )?(?:work|show|appear|run|compil|build|load|start|there|"
          r"right|correct|happen|produc|affect)|\b(?:is|are|was|it'?s|we are|we'?re) (?:broken|wrong|incorrect|missing|failing)\b|"
          rf"\bi (?:can|do) ?{_NOT} see\b|\bi (?:still )?(?:get|got|see) (?:an? |the |this )?(?:\w+ )?(?:error|exception|failure)\b|"
          r"^(?:\S+ ){1,7}(?:fail(?:s|ed|ing)?|broke|crashe[sd])(?: now| again)?[.!]*$"),
    _rule("verdict", r"\b(?:awkward|confusing|worse|unnecessary|redundant|overkill|misleading|wrong|incorrect)\b|"
          r"\btoo (?:many|much)\b|\b(?:is|are|it'?s|was|were|looks?|feels?|seems?|sounds?) (?:way |a bit |much |still )?too \w+|"
          rf"{_NOT} (?:quite |really |very )?(?:right|correct|good|better|enough|necessary|consistent|what i)\b|"
          r"\bneeds? (?:more|some) work\b|\b(?:none|neither) of (?:that|those|these|them)\b|\bshould be (?:more|less) \w+"),
    _rule("blame", r"\byou (?:forgot|missed|skipped|ignored|broke|deleted|removed|changed|left|should(?:n'?t)? have)\b|"
          rf"\byou (?:did|have|were|are) ?{_NOT}\b|\bwhy (?:did|do|are|have|would) you\b|"
          r"^why (?:not|\w+ing|don'?t (?:you|we))\b|"
          r"\bdid you (?:just )?(?:change|updat|delet|remov|edit|touch)"),
    _rule("doubt", rf"{_OPENER}(?:would|should|is|are|does|do) ?n'?t (?:it|that|this|we|you|these|those|the)\b|"
          r"\bdo we (?:really |even |still )?need (?:the|this|that|these|those|it|them)\b|"
          r"\b(?:is|are) (?:it|that|this|these|they|the \w+) (?:really |even |still )?(?:necessary|needed)\b|"
          r"\bway to (?:not|avoid)\b|\bnot just\b"),
    _rule("second_thought", r"^hmm+,? .*\b(?:i want|i'd|i would|can we|could we)\b"),
    _rule("change_back", rf"{_OPENER}(?:can|could|would)? ?(?:you|we)? ?(?:undo|revert|roll back|get rid of|remove|put \S+ back)\b|"
          r"\bmake (?:\S+ ){1,6}(?:(?:small|larg|bigg|tight|short|simpl|clean|clear|thinn|wid|dark|light)er|(?:more|less) \w+)\b"),
)  # fmt: skip
OPENING_RULES: tuple[Rule, ...] = (
    _rule("prohibition", rf"{_OPENER}(?:do(?:n'?t| not)|never|stop|quit) (?!you\b|we\b|i\b|they\b|it\b|think|know|worry|forget)\w+"),
    _rule("objection", r"^but\b[^?]*$"),
)  # fmt: skip
"""Only as the first thing said: behind a new request a prohibition limits that request."""

_APPROVES = re.compile(
    r"^(?:yes|yeah|yep|ya|ok(?:ay)?|sure|great|thanks?|thank you|perfect|looks good|lgtm|nice|cool|awesome|good|go ahead|"
    r"continue|sounds good|that'?s (?:right|correct|fine)|correct|right|do it|proceed)\b(?!.*\b(?:but|except|though|instead)\b)",
    re.IGNORECASE | re.DOTALL,
)
_ASKS_PLAINLY = re.compile(
    rf"{_OPENER}(?:what|how|which|where|when|who|can|could|would|should|do|does|did|is|are|will|let'?s|make sure|question)\b|"
    r".*\b(?:right|or|correct)\?$",
    re.IGNORECASE,
)
_REQUESTS = re.compile(
    rf"{_OPENER}(?:can|could|would|please|let'?s|add|update|create|write|implement|check|look|take|run|review|explain|give|"
    r"show|use|try|continue|commit|push|open|find|read|test)\b",
    re.IGNORECASE,
)
STATEMENTS = frozenset({"ought", "verdict", "fails", "contrast", "unwanted"})
"""Rules that say how things are or ought to be: in a question or a request they say no such thing."""
_ASKS = re.compile(
    r"^(?:(?:hmm+|so|and|but|ok(?:ay)?)[,.]?\s+)*(?:what|how|why|which|where|when|who|can|could|would|should|do|does|did|is|"
    r"are|will|explain|give|show|tell|list|describe|continue|wait|hold on|question|let'?s)\b|\?\s*$",
    re.IGNORECASE,
)
_CONDITION = re.compile(r"^(?:if|when|unless|in case|once)\b(?!.*\b(?:but|should)\b)", re.IGNORECASE)
_DECLARES = re.compile(
    r"^(?:(?:and|but|so|maybe|no)\s+)*(?:i|it|the|this|that|there|we|you|these|those|they|only|just|use)\b|\b(?:first|only|already|not)\b",
    re.IGNORECASE,
)
_QUOTED = re.compile(
    r"```.*?(?:```|\Z)|`[^`\n]*`|(?<!\w)\"(?=\S)[^\"\n]{12,}\"|^\s*>.*$|https?://\S+", re.DOTALL | re.MULTILINE
)
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\.\.+\s*|\n+")
_ASKING_TOOLS = frozenset({"askuserquestion", "ask_followup_question", "exitplanmode", "ask_user"})


class Correction(NamedTuple):
    said: Spoken
    kind: ErrorKind
    words: str
    """The sentences that correct, without what the user asks for next."""
    rule: str
    confidence: float


def corrections(trace: Trace) -> Iterator[Correction]:
    for said in spoken(trace):
        found = correction_of(said, asked_by(trace, said)) if said.turn is not None else None
        if found:
            yield found


def correction_of(said: Spoken, asked: bool) -> Correction | None:
    """The correction in one message; `asked` says whether the agent had put a question."""
    text = _QUOTED.sub(" ", said.text.replace("’", "'"))[:OPENING_CHARS].strip()
    if _APPROVES.match(text):
        return None
    parts = [part.strip() for part in _SENTENCE.split(text) if part.strip()]
    if parts and _REQUESTS.match(parts[0]):
        # What comes behind a request says how it is meant.
        parts = parts[:1]
    hits = [
        (part, rule) for part in parts if not _CONDITION.match(part) for rule in _first_rule(part, part is parts[0])
    ]
    if hits:
        words = " ".join(part for part, _ in hits)[:MAX_CHARS]
        return Correction(said, hits[0][1].kind, words, hits[0][1].name, RULE_CONFIDENCE)
    stopped = (said.interrupted or said.rejected) and not asked
    told = [part for part in parts if _DECLARES.search(part) and not _ASKS.search(part)]
    return Correction(said, "correction", told[0][:MAX_CHARS], "stopped", 1.0) if stopped and told else None


def _first_rule(sentence: str, opening: bool) -> list[Rule]:
    rules = (*RULES, *OPENING_RULES) if opening else RULES
    asks = _ASKS_PLAINLY.match(sentence) is not None or _REQUESTS.match(sentence) is not None
    return [rule for rule in rules if rule.pattern.search(sentence) and not (asks and rule.name in STATEMENTS)][:1]


def asked_by(trace: Trace, said: Spoken) -> bool:
    """Whether the turn before the message asks the user something: what follows may be no more than the answer."""
    if said.turn is None:
        return False
    turn = trace.messages[trace.turns[said.turn].start]
    tools = {call["function"]["name"].lower() for call in turn.get("tool_calls", [])}
    return turn["content"].rstrip(" *_`").endswith("?") or bool(tools & _ASKING_TOOLS)


def said_site(
    trace: Trace, turn: int, kind: ErrorKind, words: str, detector: str, confidence: float, fault: Fault = "policy"
) -> ErrorSite:
    """The site of a turn that the user found fault with."""
    return ErrorSite(
        site_id=content_id(trace.trace_id, turn, kind),
        trace_id=trace.trace_id,
        turn=turn,
        state_id=trace.state_id(turn),
        error_kind=kind,
        fault=fault,
        error_message=f"The user said:\n{words}",
        detector=detector,
        confidence=confidence,
    )
