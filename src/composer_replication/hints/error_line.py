"""The one line of an error text that a hint quotes: the one that failed, not the first that sounds like an error."""

from __future__ import annotations

import re

from .wording import clip_words, count_tokens, visible

MAX_LINE_CHARS = 400
LINE_TOKENS = 40

# Best first. What a program says of itself comes before places in files, because searches print places.
_EXCEPTION = re.compile(
    r"^raised |^\*\* \(\w+\) "
    r"|^(?:E\s+|- )?(?:[A-Z]\d+ )?(?:[\w.]+\.)?[A-Z]\w*(?:Error|Exception|Exit|Interrupt)\b(?::.*)?$"
)
_TELLING = (
    re.compile(
        r"^[\w./-]+: .*(?:No such file|not found|cannot|can't|denied|illegal|invalid|unrecogni[sz]ed|not permitted)"
    ),
    re.compile(r"^\S*\w\S*:\d+(?::\d+)?:?\s+\S.*$"),
    re.compile(r"^(?:--- FAIL: |FAILED |FAIL: |not ok \d|[✗✖×] )"),
    re.compile(r"^(?:\w+ )?(?:fatal|error|panic)\b.{0,40}:", re.IGNORECASE),
    re.compile(r"\b(?:fatal|error|panic)\b", re.IGNORECASE),
    re.compile(
        r"fail|cannot|can't|could not|unable|not found|\bno \w+|denied|undefined|unrecogni[sz]ed|invalid|unexpected"
        r"|expected|missing|refused|exception|ignored|not allowed|not permitted|unknown|✗|✖",
        re.IGNORECASE,
    ),
)
_EMPTY_TALK = re.compile(
    r"^Exit code -?\d+$|^Traceback |^\[[^\]]*\] (?:\$|ERROR task failed)|^\[rerun: |^error: (?:Recipe|script) "
    r"|^FAIL\b(?:\s+\S+(?:\s+\[[^\]]*\]|\s+[\d.]+s)?)?$|^npm (?:ERR!|error) (?:code|errno|A complete log)|^\W*$"
    r"|^make(?:\[\d+\])?: \*\*\*|exited with code \d+\.?$|^\[?Command finished with exit code|^<returncode>"
    r"|^(?:error: )?found \d+ (?:errors?|problems?|issues?)|^\S+:\d+$|proposed edit has introduced"
    r"|^(?:\[An )?error occurred during execution|^(?:raise|throw)\s|^The block was put in, and |^\S*test\S*:$",
    re.IGNORECASE,
)
"""Says that something failed, and not what."""
_NOT_THE_FAILURE = re.compile(
    r"\bskip(?:s|ped|ping)?\b|^-+ PASS|\bPASSED\b|\bwarn(?:ing)?\b|\w+Warning\b|^note: |^Checked \d+ files"
    r"|^(?:\d+ )*\d+ ?[│|]|^[│|] |not a problem with pip"
    r"|not pip\.?$|subprocess-exited-with-error",
    re.IGNORECASE,
)
_CARETS = re.compile(r"^\^+ ")
"""Under a line of the call or of a source, before what is said about it."""
_ANNOUNCES = re.compile(r"(?<=[.!?]) [^.!?]*:$")
"""A last sentence that only leads to the next line."""
_HARNESS_TAIL = re.compile(r"\[Python Interpreter:.*$")
_NAME_AND_REASON = re.compile(r"[A-Za-z_][\w.]*(?:: .*)?$")
_RAISED = "raised "
_FOLDERS = re.compile(r"^\S*/(?=[^/\s]+:\d+)|(?<!\S)/\S*/(?=[^/\s])")
"""Before a place in a file, and of an absolute path."""


def error_line(message: str) -> str | None:
    """The line of a longer output that says most about what went wrong; None where no line does."""
    lines = _telling_lines(message)
    for pattern in (_EXCEPTION, *_TELLING):
        found = [line for line in lines if pattern.search(line)]
        if found:
            # A chain of exceptions ends with the one that counts; compilers and tools put the cause first.
            return _quoted(found[-1 if pattern is _EXCEPTION else 0])
    return None


def first_line(message: str) -> str | None:
    """What a tool that refuses a call says first; its list of what exists comes after."""
    lines = _telling_lines(message)
    exceptions = [line for line in lines if _EXCEPTION.search(line)]
    return _quoted([*exceptions[-1:], *lines][0]) if lines else None


def _quoted(line: str) -> str:
    said = _ANNOUNCES.sub("", _CARETS.sub("", line.removeprefix("- ").removeprefix(_RAISED)))
    if count_tokens(said) > LINE_TOKENS:
        said = _FOLDERS.sub("", said)
    return clip_words(said, LINE_TOKENS).rstrip(" .:")


def _telling_lines(message: str) -> list[str]:
    """Lines that may be the failure. An exception under the frames of a traceback is marked, whatever its name."""
    telling: list[str] = []
    in_traceback = False
    for raw in visible(message).splitlines():
        line = " ".join(_HARNESS_TAIL.sub("", raw[:MAX_LINE_CHARS]).split())
        if raw.startswith("Traceback (most recent call last)"):
            in_traceback = True
        elif in_traceback and line and not raw[0].isspace() and _NAME_AND_REASON.match(line):
            telling.append(f"{_RAISED}{line}")
            in_traceback = False
        elif line and not _EMPTY_TALK.search(line) and not _NOT_THE_FAILURE.search(line):
            telling.append(line)
    return telling
