"""What the user said right after a turn: an interruption with a correction, or a word about style, tone or effort.

The phrases are few and plain on purpose. Most corrections are worded in ways that no list of phrases finds; those need
a reader, see `reader.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from composer_replication.records import ErrorKind, ErrorSite, Fault, Trace, content_id

INTERRUPTED = re.compile(r"\[Request interrupted by user|<turn_aborted>|^\[?The user interrupted")
NOT_WORDS = re.compile(
    r"\s*(<|/|\[Request interrupted|\[Image|Caveat:|Base directory for this skill|This session is being continued|"
    r"Message Type: |Please continue working on the task|EXECUTION RESULT|OBSERVATION)"
)
"""Commands, and what harnesses write in the user's name."""
MAX_CHARS = 2_000

PHRASES: dict[ErrorKind, re.Pattern[str]] = {
    "communication": re.compile(
        r"\b(too (verbose|long|wordy|much text)|(be|more) (concise|brief)|stop (explaining|apologi[sz]ing|summari[sz]ing)|"
        r"(don't|do not|no need to) (explain|summari[sz]e|apologi[sz]e|repeat)|just (answer|tell me)|shorter (answers?|please))\b",
        re.IGNORECASE,
    ),
    "style": re.compile(
        r"\b((don't|do not|stop|never) (add(ing)?|writ(e|ing)|us(e|ing)|creat(e|ing)) .{0,30}"
        r"(comments?|emojis?|docstrings?|markdown|abbreviations|wrappers?)|(match|follow|keep) (the )?(existing|our|project'?s?) "
        r"(style|conventions?|patterns?|naming)|(wrong|bad|poor|confusing) (name|naming|style|formatting))\b",
        re.IGNORECASE,
    ),
    "effort": re.compile(
        r"\b(you (did not|didn't|haven't|have not|forgot to|skipped|stopped before) (finish|complete|test|run|check|verif|read|look)\w*|"
        r"(why did you|don't) (stop|give up)|keep going|you're not done|over-?engineer(ed|ing)?|"
        r"(too|more) (complicated|complex) than|(simpler|too much) (than needed|work)|do(n't| not) (do|change) more than)\b",
        re.IGNORECASE,
    ),
}  # fmt: skip


class Steering(NamedTuple):
    kind: ErrorKind
    words: str
    rule: str


def words_after(trace: Trace, turn: int) -> tuple[str, bool]:
    """The user's own words right after a turn, and whether the user stopped the turn before saying them."""
    interrupted = False
    at = trace.turns[turn]
    # What stands behind a compaction or a rewind was said before, or in another branch.
    later = [segment for segment in trace.segments[at.segment + 1 :] if not segment.goes_on]
    limit = min((segment.start for segment in later), default=len(trace.messages))
    for message in trace.messages[at.end : limit]:
        if message["role"] != "user":
            break
        if INTERRUPTED.search(message["content"]):
            interrupted = True
        elif NOT_WORDS.match(message["content"]):
            break
        else:
            return message["content"].strip()[:MAX_CHARS], interrupted
    return "", interrupted


def steering(words: str, interrupted: bool) -> Iterator[Steering]:
    if interrupted and words:
        yield Steering("interruption", words, "interrupted_and_corrected")
        return
    for kind, pattern in PHRASES.items():
        if pattern.search(words):
            yield Steering(kind, words, f"{kind}_phrase")
            return


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
