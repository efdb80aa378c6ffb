"""Reminders for the error kinds of real coding sessions. Each says what a colleague would say one step earlier."""

from __future__ import annotations

import re
from collections.abc import Callable

from .context import HintContext
from .wording import ended


def _no_action(context: HintContext) -> str:
    if _ASKS_FOR_CODE.match(context.get("error_message", "")):
        return (
            "Reminder: answer with one code block in Python, between ``` marks. "
            "It has to parse, and to hold the whole of each definition that is asked for."
        )
    return "Reminder: an answer must hold a call or a block in the form that was asked for. Text alone does nothing."


_ASKS_FOR_CODE = re.compile(r"Your response .*\bcode block\b")


_FINDING = re.compile(r"^\S+:\d+(?::\d+)?:? .*\([a-z][\w-]*\)$")
"""Of a linter: a place, what it finds and the name of its rule. Nothing that could be checked before it runs."""


def _exit_code(context: HintContext) -> str:
    message, line = context.get("error_message", ""), context.get("error_line")
    if context.get("after_edit"):
        return _broken_by_edit(line)
    if context.get("reproduces") and line:
        return (
            f"Reminder: this script is about to end with: {ended(line)} "
            "If that is the error to reproduce, look for its cause; if not, mend the script."
        )
    if re.match(r"Exit code 127\b", message) or "command not found" in message:
        return "Reminder: not every program is installed here. Check that a command exists, or use the project's own."
    if line and _FINDING.search(line):
        return f"Reminder: what this command checks is not ready. It finds: {ended(line)} Mend that before running it."
    if line:
        return f"Reminder: here a command fails with: {ended(line)} Check for that before running it."
    if re.fullmatch(r"\s*Exit code 1\s*", message):
        return (
            "Reminder: a search or a comparison ends with exit code 1 when it finds nothing. "
            "Expect that, or ask in a way that answers either case."
        )
    return (
        "Reminder: the command of this step fails. Run its parts one at a time, "
        "and let the last lines of the output say which one it is."
    )


def _broken_by_edit(line: str | None) -> str:
    shown = f" with: {ended(line)}" if line else "."
    return f"Reminder: after this edit a command that passed fails{shown} Keep it passing."


def _edit_mismatch(context: HintContext) -> str:
    message = context.get("error_message", "")
    if message.startswith("No changes to make"):
        return (
            "Reminder: an edit has to change something, so the new text must differ from the old. "
            "Look first whether the change is there already."
        )
    several = re.match(r"Found (\d+) matches", message)
    if several:
        return (
            f"Reminder: the text to replace stands {several[1]} times in the file. "
            "Take in enough lines around it to mean one place, or say that all are meant."
        )
    return (
        "Reminder: an edit must repeat the text of the file exactly, indentation and line breaks included. "
        "Read those lines again and copy them as they stand."
    )


def _edit_precondition(context: HintContext) -> str:
    if "modified since" in context.get("error_message", ""):
        return (
            "Reminder: the file has changed since it was read, by the user or by a formatter. "
            "Read it again and edit what it says now."
        )
    return "Reminder: a file must be read in this session before it is written. Read it first, then edit what it holds."


_FOLDER = re.compile(r"working directory is:? (\S+)")


def _file_not_found(context: HintContext) -> str:
    message = context.get("error_message", "")
    if "EISDIR" in message:
        return "Reminder: that path is a folder. List it first, then open one of its files."
    advice = "Reminder: make sure that a path exists before using it: list the folder or search for the file by name."
    folder = _FOLDER.search(message)
    if folder:
        return f"{advice} The working directory is {folder[1].rstrip('.')}"
    return f"{advice} Mind which directory the path starts from."


def _timeout(context: HintContext) -> str:
    limit = re.search(r"timed out after (\d+\s?\w+(?: \d+\w+)?)", context.get("error_message", ""))
    return (
        f"Reminder: this takes longer than the time allowed{f', {limit[1]}' if limit else ''}. "
        "Run it in the background, do less at once, or raise the limit."
    )


def _permission(context: HintContext) -> str:
    message = context.get("error_message", "")
    if message.startswith("Blocked: sleep"):
        return "Reminder: waiting with sleep is blocked here. Start long work in the background and look at it later."
    if re.search(r"EACCES|EPERM|Permission denied|Operation not permitted", message):
        return "Reminder: this account may not touch everything. Look at owner and mode, and work where it may write."
    return "Reminder: not every action is allowed in this session. Take a way that is, or ask the user for this one."


def _limit(context: HintContext) -> str:
    allowed = re.search(r"maximum allowed (?:tokens|size) \(([^)]{1,20})\)", context.get("error_message", ""))
    return (
        f"Reminder: this is too much to take in at once{f'; the limit is {allowed[1]}' if allowed else ''}. "
        "Read one part of it by offset and limit, or search for the lines that matter."
    )


def _hook_block(context: HintContext) -> str:
    reason = context.get("hook_reason")
    if reason:
        return f"Reminder: a hook of this project stops this step: {ended(reason)} Settle that first."
    return "Reminder: hooks check the steps in this project. Do what they ask for; do not work around them."


_TO_TALK = re.compile(
    r"(?:(?:no|ok|please|stop|wait|hold on|hang on)\b[\s,.!]*)*"
    r"(?:let'?s (?:first )?(?:talk|discuss)\b[^.!?]{0,30}[.!?]?)?",
    re.IGNORECASE,
)
"""Says when, and nothing about the step."""


def _user_rejection(context: HintContext) -> str:
    feedback = context.get("feedback")
    if feedback and not _TO_TALK.fullmatch(feedback):
        return f"Reminder: about this step the user says: {feedback}"
    return "Reminder: the user does not want this step taken unasked. Say what it would do and ask first."


def _interruption(context: HintContext) -> str:
    feedback = context.get("feedback")
    if feedback:
        return f"Reminder: the user stops the work here and says: {feedback}"
    return "Reminder: the user stops the work here. Check that this step serves what was asked for."


def _silent_failure(context: HintContext) -> str:
    line = context.get("error_line")
    if context.get("after_edit"):
        return _broken_by_edit(line)
    shown = f" Here the output says: {ended(line)}" if line else ""
    return (
        f"Reminder: a command can end well and still have failed.{shown} "
        "Read the output before going on, and let the exit status be seen."
    )


def _style(context: HintContext) -> str:
    return (
        "Reminder: write as the code around the change is written, "
        "and keep to the rules that the user and the project have given."
    )


def _communication(context: HintContext) -> str:
    return "Reminder: tell the user in plain words what was found, what was done and what is still open, and no more."


def _effort(context: HintContext) -> str:
    return "Reminder: fit the effort to the request. Do all that was asked for, check it, and leave the rest alone."


TEMPLATES: dict[str, Callable[[HintContext], str]] = {
    "no_action": _no_action,
    "exit_code": _exit_code,
    "edit_mismatch": _edit_mismatch,
    "edit_precondition": _edit_precondition,
    "file_not_found": _file_not_found,
    "timeout": _timeout,
    "permission": _permission,
    "limit": _limit,
    "hook_block": _hook_block,
    "user_rejection": _user_rejection,
    "interruption": _interruption,
    "silent_failure": _silent_failure,
    "style": _style,
    "communication": _communication,
    "effort": _effort,
}
