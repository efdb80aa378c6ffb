"""What a template may say about one error, read from the error text: nothing here looks at later turns.

Harness texts are those of Claude Code and of the usual validators (zod, ajv, pydantic, Python itself).
"""

from __future__ import annotations

import json
import re
from typing import Any, Literal, NotRequired, cast

from typing_extensions import TypedDict

from composer_replication.records import ErrorSite, JsonObject
from composer_replication.sites.detect import BROKEN_BY_EDIT, EXPLAINED

from .error_line import error_line, first_line
from .wording import clip, count_tokens, one_line, sentences, visible

MAX_READ_CHARS = 4000
SPOKEN_KINDS = frozenset({"user_rejection", "interruption"})
TOOLBOX = "toolbox/"
REASON_TOKENS = 40
FEEDBACK_TOKENS = 64


class FailingArgument(TypedDict):
    """The argument that a validator names, and what it says about it."""

    name: str
    problem: Literal["type", "missing", "unexpected"]
    expected: NotRequired[str]


def context_of(site: ErrorSite) -> dict[str, Any]:
    """The `HintContext` of a site. A fact that is not known has no key."""
    message, kinds = site.error_message[:MAX_READ_CHARS], {site.error_kind, site.secondary_kind}
    facts: dict[str, Any] = {
        "secondary_kind": site.secondary_kind,
        "tool_name": site.tool_name,
        "tool_schema": site.tool_schema,
        "error_line": first_line(message) if "runtime_error" in kinds else error_line(message),
        "choices": choices_of(message),
        "feedback": feedback_of(message) if kinds & SPOKEN_KINDS else None,
        "hook_reason": hook_reason(message) if "hook_block" in kinds else None,
        "failing_argument": failing_argument(message) if "type_error" in kinds else None,
        "refusal": refusal_of(message, site.tool_schema) if "type_error" in kinds else None,
        "after_edit": site.detector.endswith(f"/{BROKEN_BY_EDIT}"),
        "any_tool_may_do": site.detector.startswith(TOOLBOX),
    }
    known = {name: value for name, value in facts.items() if value}
    return {"error_message": site.error_message, "available_tools": list(site.available_tools), **known}


_SAID = re.compile(r"\bthe user (?:then |also )?(?:said|says|wrote|answered)\s*:\s*(.+)", re.IGNORECASE | re.DOTALL)
_HARNESS_NOTE = re.compile(
    r"\n\s*Note: The user's next message.*|</?system-reminder>.*|\[Request interrupted.*", re.DOTALL
)
# The harness speaks in the user's name when a question of the agent is turned down.
_NOT_THE_USER = "The user wants to clarify these questions"
_ASKS_FOR_MORE = re.compile(
    r"\?\s*$|^(?:(?:hmm+|no|so|and|but|also|ok(?:ay)?|then|now|next)[,.]?\s+)*(?:(?:can|could|would|should|does|did|is|are)"
    r"(?:n'?t)?|do (?:i|we|you)|what|how|why|which|where|when|who|explain|give|show|tell me|list|describe)\b",
    re.IGNORECASE,
)
"""A question or a request: the user's next wish, which the agent could not know."""


def feedback_of(message: str) -> str | None:
    """The user's own words about the step: whole sentences, as many as fit, and nothing that asks for more work."""
    # What came with the refusal and what the user explained afterwards: the last word counts.
    found = _SAID.search(message, max(message.rfind(EXPLAINED), 0))
    words = one_line(_HARNESS_NOTE.sub("", found.group(1))) if found else ""
    if not words or words.startswith(_NOT_THE_USER):
        return None
    kept = ""
    told = [sentence for sentence in sentences(words) if not _ASKS_FOR_MORE.search(sentence)]
    for sentence in told:
        if count_tokens(f"{kept} {sentence}") > FEEDBACK_TOKENS:
            break
        kept = f"{kept} {sentence}".strip()
    return kept or (clip(told[0], FEEDBACK_TOKENS) if told else None)


_HOOK = re.compile(r"^\w+:\S+ hook (?:blocking )?(?:error|blocked)[^:]*:\s*(?:\[[^\]]*\]:\s*)?")


def hook_reason(message: str) -> str | None:
    """What the hook says, without the harness's words around it."""
    text = _HOOK.sub("", visible(message).strip()).replace("\\n", "\n")
    reason = " ".join(" ".join(line.split()) for line in text.splitlines() if line.strip())
    return clip(reason, REASON_TOKENS).rstrip(" .:") or None


_CHOICES = re.compile(r"\b(?:available|valid|known|existing) \w+(?: are)?:\s*([^\n]+)", re.IGNORECASE)


def choices_of(message: str) -> list[str]:
    """Names that the error itself offers instead."""
    found = _CHOICES.search(message)
    names = [name.strip(" `'\".") for name in found.group(1).split(",")] if found else []
    # The message may be cut inside the last name.
    return [name for name in names if re.fullmatch(r"[\w:./-]{1,80}", name)]


_NAMED = r"[`'\"]?(?P<name>[A-Za-z_][\w.-]{0,63})[`'\"]?"
_ARGUMENT: tuple[tuple[Literal["type", "missing", "unexpected"], re.Pattern[str]], ...] = (
    ("type", re.compile(rf"[Tt]he parameter {_NAMED} type is expected as [`'\"]?(?P<expected>\w+)")),
    ("missing", re.compile(rf"required (?:parameter|property|argument):? {_NAMED}(?: is missing)?")),
    ("missing", re.compile(rf"missing \d+ required (?:positional|keyword-only) arguments?: {_NAMED}")),
    ("missing", re.compile(rf"{_NAMED} is a required property")),
    ("missing", re.compile(r"[`'\"](?P<name>[A-Za-z_]\w*)[`'\"] is required")),
    ("missing", re.compile(rf"^{_NAMED}\n\s+(?:Field required|Missing required)", re.MULTILINE)),
    ("unexpected", re.compile(rf"unexpected (?:parameter|keyword argument|property) {_NAMED}")),
    ("unexpected", re.compile(rf"^{_NAMED}\n\s+(?:Extra inputs|Unexpected keyword)", re.MULTILINE)),
    ("type", re.compile(rf"^{_NAMED}\n\s+Input should be (?:a valid |an? )?(?P<expected>\w+)", re.MULTILINE)),
    ("type", re.compile(r"(?:data|instance|arguments)[./](?P<name>\w+) (?:must|should) be (?P<expected>\w+)")),
)


def failing_argument(message: str) -> FailingArgument | None:
    """The first argument that a validation message complains about."""
    issue = _zod_issue(message)
    if issue:
        return issue
    for problem, pattern in _ARGUMENT:
        found = pattern.search(message)
        if found:
            argument = FailingArgument(name=found["name"], problem=problem)
            expected = found.groupdict().get("expected")
            return {**argument, "expected": expected} if expected else argument
    return None


def refusal_of(message: str, schema: JsonObject | None) -> str | None:
    """The sentence of a tool that names a parameter of its own and says when it may not stand so."""
    declared: JsonObject = (schema or {}).get("properties", {})
    if any(f"`{name}`" in message for name in declared):
        return first_line(message)
    return None


def _zod_issue(message: str) -> FailingArgument | None:
    start = message.find("[")
    try:
        issues, _ = json.JSONDecoder().raw_decode(message, start) if start >= 0 else ([], 0)
        issue = cast("dict[str, Any]", issues[0])
        path = [part for part in issue.get("path", []) if isinstance(part, str)]
        code, expected = issue.get("code"), issue.get("expected")
    except (ValueError, IndexError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    if code == "unrecognized_keys" and issue.get("keys"):
        return FailingArgument(name=str(issue["keys"][0]), problem="unexpected")
    if not path:
        return None
    if issue.get("received") == "undefined" or issue.get("message") == "Required":
        return FailingArgument(name=path[0], problem="missing")
    argument = FailingArgument(name=path[0], problem="type")
    return {**argument, "expected": expected} if isinstance(expected, str) and len(path) == 1 else argument
