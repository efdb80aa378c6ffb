"""One tool result: did the call fail, of which kind, and whose fault was it?"""

from __future__ import annotations

import re
from typing import NamedTuple

from composer_replication.records import ErrorKind, Fault, Message, ToolCall

from .output import behind_passing_runs, shows_failure
from .rules import (
    ANY_COMMAND,
    ANY_FAILURE,
    ENVIRONMENT,
    HIDDEN_STATUS,
    SHOWN_FAILURE,
    STATUS_AGENTS,
    ResultRule,
    first_match,
    unwrap,
)
from .shell import (
    command_of,
    expects_failure,
    hides_status,
    is_probe,
    looks_for_what_it_removed,
    only_reads,
    purpose_of,
    silences_errors,
)

MESSAGE_CHARS = 2_000
NO_ANSWER = 1
"""Exit status by which a probe says no; higher ones are errors of the probe itself."""
_EXIT_STATUS = re.compile(
    r"[Ee]xit(?:ed with)?(?: exit)? [Cc]ode:? (-?\d+)|<returncode>(-?\d+)|exit status (\d+)|\"exit_code\":\s*(-?\d+)"
)
_STOPPED_BY_HAND = 130
_CODE = re.compile(r"`[^`]*`")
_WANTED = re.compile(
    r"\b(reproduc|replicat)|\b(should|must|will|expected? (it |this |them )?to) (now |still |first )?fail|\b(see|watch) (it|the tests?) fail|"
    r"\b(confirm|demonstrate|trigger|show|observe) (that )?(the )?(bug|issue|failure|problem|error)|"
    r"\b(check|see|look at|get|show|read|inspect|view) (the|which|what|why) (\w+ ){0,2}(failing|failed|failures?)\b|"
    r"\b(verify|check|confirm|ensure|make sure) (?![^.\n]*\b(no|not|nothing|never|if|whether)\b)[^.\n]{0,60}"
    r"\b(rejected|refused|denied|blocked|fails|errors out|raises)\b|"
    r"\bshould (now |still )?(be (rejected|refused|denied|blocked)|error|raise|not (exist|be found))|"
    r"\bnegative (check|test|case)|\bexpect(s|ed|ing)? (a|an|the)? ?(failure|error|non-?zero)|"
    r"\bfail(s|ing)? (first|as expected)|\bto see (what|which|why|the) [^.\n]{0,30}(errors?|fail)",
    re.IGNORECASE,
)
_CONFLICT = re.compile(
    r"^CONFLICT \(|^Automatic merge failed; fix conflicts|^(error: )?could not apply [0-9a-f]{7}", re.M
)
"""A merge or a rebase that has to be settled by hand has done what it could."""
_NOT_THERE = re.compile(r"ls: .*No such file")
_TRIES_A_FIX = re.compile(r"\b(fixed|fixes|resolved|works now|now pass|again)\b", re.IGNORECASE)
_BROKE_BEFORE = re.compile(r"(Import|ModuleNotFound|Syntax|Indentation|Name)Error|command not found|can't open file")
_ASKS_WHETHER_IT_EXISTS = re.compile(r"\b(check|see|verify|find out) (if|whether)\b[^.\n]{0,60}\bexist", re.IGNORECASE)


class Failure(NamedTuple):
    kind: ErrorKind
    fault: Fault
    rule: str
    confidence: float
    text: str


def failure_of(agent: str, said: str, call: ToolCall | None, result: Message) -> Failure | None:
    """None where the call did its work, or where what went wrong is nobody's error.

    `said` is the text of the turn: a run that was announced to fail did what it should.
    """
    flagged = result.get("is_error", False)
    text = unwrap(agent, result["content"])
    command = command_of(call)
    meant = f"{said}\n{purpose_of(call)}"
    rule = first_match(agent, text, command is not None, flagged) or _by_outcome(agent, meant, command, text, flagged)
    if rule is None or rule.kind is None or (rule.kind == "file_not_found" and _ASKS_WHETHER_IT_EXISTS.search(said)):
        return None
    fault = "environment" if rule.fault == "policy" and ENVIRONMENT.search(excerpt(text)) else rule.fault
    shown = (behind_passing_runs(text).strip() or text) if command else text.removeprefix(f"{rule.kind}: ")
    return Failure(rule.kind, fault, rule.name, rule.confidence, excerpt(shown))


def passed(call: ToolCall | None, result: Message) -> bool:
    """Whether nothing at all went wrong; a failure that was wanted did."""
    command = command_of(call)
    return not result.get("is_error", False) and not (command and shows_failure(command, result["content"]))


def _by_outcome(agent: str, said: str, command: str | None, text: str, flagged: bool) -> ResultRule | None:
    """Commands that ended badly, whether the harness says so or only their output does."""
    if command is None:
        return ANY_FAILURE if flagged else None
    if _was_wanted(said, text) or _CONFLICT.search(text):
        return None
    if flagged:
        status = _status(text)
        says_no = is_probe(command) and status in (NO_ANSWER, None)
        asks = silences_errors(command) or looks_for_what_it_removed(command)
        return None if says_no or asks or status == _STOPPED_BY_HAND else ANY_COMMAND
    if expects_failure(command):
        return None
    if agent in STATUS_AGENTS and not hides_status(command):
        return None
    line = shows_failure(command, text)
    if line is None or (agent in STATUS_AGENTS and only_reads(command) and _NOT_THERE.match(line)):
        return None
    return HIDDEN_STATUS if agent in STATUS_AGENTS else SHOWN_FAILURE


def _was_wanted(said: str, output: str) -> bool:
    """Whether the turn announced the failure, and it is not one of the run itself."""
    words = _CODE.sub("", said)
    announced = _WANTED.search(words) is not None and _TRIES_A_FIX.search(words) is None
    return announced and _BROKE_BEFORE.search(output) is None


def _status(text: str) -> int | None:
    match = _EXIT_STATUS.search(text)
    return int(next(group for group in match.groups() if group is not None)) if match else None


def excerpt(text: str) -> str:
    """Beginning and end of a long text: commands tell what went wrong in their last lines."""
    if len(text) <= MESSAGE_CHARS:
        return text
    half = MESSAGE_CHARS // 2
    return f"{text[:half]}\n…\n{text[-half:]}"
