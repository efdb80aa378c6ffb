"""What a person, or whoever stands in for one, said in a session. Reads a `Trace`, writes nothing.

A chat log keeps much in the user's name that no user wrote: reminders of the harness, the text of commands and skills,
notices of background work, summaries. They are left out here. A reason given with a rejection stands in a tool result
and is the user's own word; it is found there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from composer_replication.records import Message, Trace

INTERRUPTED = re.compile(r"\[Request interrupted by user|<turn_aborted>|^\[?The user interrupted")
REASON = re.compile(r"the user said:\n(?!The user wants to clarify)(.+)", re.DOTALL)
"""How Claude Code passes on what the user typed instead of allowing a call."""
MAX_CHARS = 2_000
REJECTED = "The tool use was rejected"
SKILL_TOOL = "Skill"

_BY_THE_HARNESS = (
    "system-reminder|local-command-\\w+|task-notification|system_notification|turn_aborted|environment_context|"
    "user_instructions|permissions instructions|multi_agent_mode|recommended_plugins|current_datetime|reminder|"
    "bash-input|bash-stdout|bash-stderr|command-name|command-message|command-args"
)
_BLOCK = re.compile(rf"<({_BY_THE_HARNESS})\b[^>]*>.*?(</\1>|$)", re.DOTALL)
_PROMPT_COMMAND = "<command-message>"
"""How Claude Code begins a command that stands for a prompt; its own commands begin with the name."""
_ARGUMENTS = re.compile(r"<command-args>(.*?)</command-args>", re.DOTALL)
_NOTICE = re.compile(
    r"\s*(/[\w:-]+(?:\s|$)|<collaboration_mode>|\[Request interrupted|Caveat:|Base directory for this skill|Context summary:|"
    r"This session is being continued|"
    r"\[encrypted summary|# AGENTS\.md instructions|\[bd prime\]|You are `/root`|Message Type: |System: |"
    r"Please continue working on the task|EXECUTION RESULT|OBSERVATION|\{\"raw_payload\")"
)


class Spoken(NamedTuple):
    message: int
    """Its index in the trace."""
    text: str
    turn: int | None
    """The turn that came right before; None where the session begins."""
    interrupted: bool
    """Whether the user stopped the turn to say this."""
    rejected: bool
    """Whether the user refused a call of the turn."""


def spoken(trace: Trace) -> Iterator[Spoken]:
    """All that users said, in the order of the trace. A text that a compaction repeats is given once."""
    before = _turns_before(trace)
    compacted = {segment.start for segment in trace.segments[1:] if segment.continues is None}
    interrupted = rejected = expands = repeats = False
    seen: set[str] = set()
    for index, message in enumerate(trace.messages):
        content = message["content"]
        repeats = repeats or index in compacted
        if message["role"] == "assistant":
            interrupted = rejected = repeats = False
            expands = any(call["function"]["name"] == SKILL_TOOL for call in message.get("tool_calls", []))
        elif message["role"] == "tool":
            refused = REJECTED in content[:400]
            reason = REASON.search(content) if refused else None
            if reason:
                yield Spoken(index, reason[1].strip(), before[index], False, True)
            rejected = rejected or refused
        elif message["role"] == "user":
            interrupted = interrupted or INTERRUPTED.search(content) is not None
            text = own_words(message)
            if text and not expands and not (repeats and text in seen):
                seen.add(text)
                yield Spoken(index, text, before[index], interrupted, rejected)
                interrupted = rejected = False
            # A message behind a slash command or a skill is the text that it stands for.
            expands = content.startswith(_PROMPT_COMMAND) or (expands and not text)


def own_words(message: Message) -> str:
    """What is left of a user message without what its harness put there; empty where that is all."""
    content = message["content"]
    if content.startswith(_PROMPT_COMMAND):
        return " ".join(_ARGUMENTS.findall(content)).strip()
    text = _BLOCK.sub("", content).strip()
    return "" if _NOTICE.match(text) else text


def _turns_before(trace: Trace) -> list[int | None]:
    """For each message the last turn of its own branch that had begun, or None before the first."""
    branches = {segment.start: segment.continues for segment in trace.segments[1:] if segment.continues}
    starts = {turn.start: number for number, turn in enumerate(trace.turns)}
    before: list[int | None] = []
    last: int | None = None
    for index in range(len(trace.messages)):
        if index in branches:
            _, left_at = branches[index]
            last = before[left_at - 1] if left_at else None
        last = starts.get(index, last)
        before.append(last)
    return before
