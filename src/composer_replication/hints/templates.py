"""Template hints: one short reminder per error kind, made of the error and of facts that are in the agent's context.

A hint stands just before the turn that went wrong, so a template speaks of what will happen, not of what was done. It
never quotes the call that failed and never names the right one. `LEAK_LEVELS` says how much each gives away at most.
The toolbox's five kinds are here; published numbers depend on their words. The kinds of real sessions are in
`session_templates.py`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable
from typing import Any, Literal, cast

from . import session_templates
from .context import HintContext
from .facts import FailingArgument
from .wording import ended

MAX_NAMED_TOOLS = 8
MAX_SUGGESTED = 3
SIMILAR = 0.6
MAX_NAMED_VALUES = 6
ENDING_OR_IDLE = frozenset({
    "finish", "submit", "exit", "done", "complete", "attempt_completion", "task_complete", "final_answer", "think",
})  # fmt: skip
"""Tools that end the work or only ponder: never the answer to a call that failed."""
JSON_TYPES = {"string": "str", "integer": "int", "number": "number", "boolean": "bool"}


def _tool_not_found(context: HintContext) -> str:
    choices = context.get("choices", [])
    if choices:
        return f"Reminder: the names that exist here are {', '.join(choices[:MAX_NAMED_TOOLS])}."
    if _NOT_A_TOOL.match(context.get("error_message", "")):
        return "Reminder: use only skills and agents that are listed, under the names they are listed with."
    if len(_offered(context)) > MAX_NAMED_TOOLS:
        alike = _alike(context)
        if alike:
            return f"Reminder: call only tools that are listed. Did you mean {' or '.join(alike)}?"
    names = _nearest(context)
    if not names:
        return "Reminder: call the tools that are listed."
    return f"Reminder: the tools listed here are {', '.join(names)}."


_NOT_A_TOOL = re.compile(r"Unknown skill|Skill \S+ is not|Agent type ")


def _json_decode(context: HintContext) -> str:
    if "multiple commands" in context.get("error_message", ""):
        return "Reminder: this tool takes one command at a time. Join the parts with && or ;, or send them one by one."
    text = 'Reminder: a call is one JSON object. Close every " and every }.'
    if _PARSER_TALK.search(context.get("error_message", "")):
        return text + ' Inside a text, write a line break as \\n and a quote as \\".'
    return text


# What a parser of real calls says. The toolbox only says "json", in small letters.
_PARSER_TALK = re.compile(r"JSON|delimiter|[Uu]nterminated|control character|parse")


def _type_error(context: HintContext) -> str:
    properties: dict[str, Any] = context.get("tool_schema", {}).get("properties", {})
    argument, tool = context.get("failing_argument"), context.get("tool_name")
    if argument:
        return _about_argument(argument, tool or "the tool", properties)
    refusal = context.get("refusal")
    if refusal:
        return f"Reminder: {tool or 'the tool'} refuses a call like this one: {ended(refusal)}"
    if not properties or not tool:
        return "Reminder: arguments must be of the type that the tool takes."
    types = [f"{name}:{_type_name(schema)}" for name, schema in properties.items()]
    return f"Reminder: {tool} takes {', '.join(types)}."


def _about_argument(argument: FailingArgument, tool: str, properties: dict[str, Any]) -> str:
    name = argument["name"]
    declared = _declared(properties[name]) if name in properties else argument.get("expected", "")
    if argument["problem"] == "missing":
        return f"Reminder: {tool} needs the argument {name}{f' ({declared})' if declared else ''}. Leave nothing out."
    if argument["problem"] == "unexpected":
        takes = f" It takes {', '.join(properties)}." if properties else " Use only the arguments that it declares."
        return f"Reminder: {tool} has no argument {name}.{takes}"
    if not declared:
        return f"Reminder: give {tool} the argument {name} in the form that it declares."
    return f"Reminder: {tool} takes the argument {name} as {declared}. Check its type before calling."


def _declared(schema: Any) -> str:
    """A parameter's schema in a few words: its type, what a list holds, which values are allowed."""
    fields = cast("dict[str, Any]", schema) if isinstance(schema, dict) else {}
    values: list[Any] = fields["enum"] if isinstance(fields.get("enum"), list) else []
    if 0 < len(values) <= MAX_NAMED_VALUES:
        return f"one of {', '.join(str(value) for value in values)}"
    if fields.get("type") == "array":
        return f"array of {_type_name(fields.get('items'))}"
    return _type_name(fields)


def _type_name(schema: Any) -> str:
    declared = cast("dict[str, Any]", schema).get("type") if isinstance(schema, dict) else None
    return JSON_TYPES.get(declared, declared) if isinstance(declared, str) else "any"


def _runtime_error(context: HintContext) -> str:
    message = context.get("error_message", "").strip()
    if _BROKEN_EDIT.search(message):
        line = context.get("error_line", "")
        shown = f" Here the linter says: {ended(line)}" if "Error" in line else ""
        return (
            f"Reminder: an edit that leaves a syntax error in the file is not applied.{shown} "
            "Replace whole lines, with their indentation and with every bracket closed."
        )
    tested = _TESTED_BLOCK.match(message)
    if tested:
        line = context.get("error_line")
        told = ended(f"{tested[1]}: {line}" if line else tested[1])
        return f"Reminder: visible tests run on the code block, and here {told} Write the definition so that they pass."
    if "\n" in message:
        message = context.get("error_line", "")
    reason = f" It says: {message}." if message else ""
    return f"Reminder: a tool can refuse a call.{reason} Use what exists."


_TESTED_BLOCK = re.compile(r"The block was put in, and (.+)\.$", re.MULTILINE)
_BROKEN_EDIT = re.compile(r"proposed edit has introduced new syntax error")


def _repeated_failure(context: HintContext) -> str:
    first = context.get("secondary_kind", "")
    if first in HINT_TEMPLATES and first != "repeated_failure" and not context.get("any_tool_may_do"):
        if context.get("reproduces"):
            return HINT_TEMPLATES[first](context)
        advice = HINT_TEMPLATES[first](context).removeprefix("Reminder: ")
        if not advice.startswith(context.get("tool_name", " ")):
            advice = f"{advice[:1].upper()}{advice[1:]}"
        return f"Reminder: this has failed before, so change something first. {advice}"
    names = [name for name in _nearest(context) if name != context.get("tool_name")]
    others = f" Listed: {', '.join(names)}." if names else ""
    return f"Reminder: that call has failed before. Try another one.{others}"


def _offered(context: HintContext) -> list[str]:
    """Listed tools that could do the work of a failed call."""
    return [name for name in context.get("available_tools", []) if name.lower() not in ENDING_OR_IDLE]


def _nearest(context: HintContext) -> list[str]:
    """Listed tools, those spelt most like the failing one when there are too many to name."""
    names = _offered(context)
    if len(names) <= MAX_NAMED_TOOLS:
        return names
    return difflib.get_close_matches(context.get("tool_name", ""), names, n=MAX_NAMED_TOOLS, cutoff=0.0)


def _alike(context: HintContext) -> list[str]:
    """Listed tools whose names could be meant; case is not held against a name."""
    by_lower = {name.lower(): name for name in _offered(context)}
    wanted = context.get("tool_name", "").lower()
    close = difflib.get_close_matches(wanted, list(by_lower), n=MAX_SUGGESTED, cutoff=SIMILAR)
    return [by_lower[name] for name in close]


Template = Callable[[HintContext], str]
LeakLevel = Literal["L0", "L1", "L2"]

HINT_TEMPLATES: dict[str, Template] = {
    "tool_not_found": _tool_not_found,
    "json_decode": _json_decode,
    "type_error": _type_error,
    "runtime_error": _runtime_error,
    "repeated_failure": _repeated_failure,
    **session_templates.TEMPLATES,
}

LEAK_LEVELS: dict[str, Literal["L0", "L1"]] = {
    **dict.fromkeys(HINT_TEMPLATES, "L0"),
    **dict.fromkeys(("tool_not_found", "type_error", "repeated_failure"), "L1"),
    **dict.fromkeys(("user_rejection", "interruption"), "L1"),
}


def dispatch(error_kind: str, context: HintContext | None = None) -> str | None:
    """The hint for an error kind, or None where no template exists."""
    template = HINT_TEMPLATES.get(error_kind)
    return template(context or {}) if template else None


def register(error_kind: str, template: Template, leak_level: Literal["L0", "L1"] = "L1") -> None:
    """Add or replace the template of one kind, and say by `leak_level` how much it gives away: L0 is the error only, L1
    facts that are in the context."""
    HINT_TEMPLATES[error_kind] = template
    LEAK_LEVELS[error_kind] = leak_level
