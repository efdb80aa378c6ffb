"""How a failed tool result is read: one table per agent, the most specific rule first.

Patterns look at the first `HEAD_CHARS` characters, without the wrapping that the harness puts around an error. Most
are anchored, because tool output quotes error texts of other programs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from composer_replication.records import ErrorKind, Fault

HEAD_CHARS = 400
WRAPPING = re.compile(r"</?tool_use_error>")
TOOLBOX_PREFIX = "error: "


@dataclass(frozen=True)
class Rule:
    """`kind` None says that the result is no one's error. `tool` limits the rule to one tool."""

    name: str
    kind: ErrorKind | None
    pattern: str
    fault: Fault = "policy"
    confidence: float = 1.0
    tool: str | None = None

    def matches(self, text: str, tool_name: str | None) -> bool:
        return self.tool in (None, tool_name) and re.match(self.pattern, text, re.DOTALL) is not None


CLAUDE_CODE_RULES: tuple[Rule, ...] = (
    Rule("cancelled_sibling", None, r"Sibling tool call errored|Cancelled: parallel tool call"),
    Rule("user_rejection", "user_rejection", r"The user doesn't want to |User rejected tool use", "user"),
    Rule("interruption", "interruption", r"\[Request interrupted by user", "user"),
    Rule("hook_error", "hook_block", r"\w+:\S+ hook (error|blocked)", "harness"),
    Rule("commit_hook", "hook_block", r"Pre-?commit \w+ failed", "harness", 0.7),
    Rule("auto_mode_down", "permission", r"\S+ is temporarily unavailable, so auto mode", "harness"),
    Rule("denied", "permission", r"Permission (to use|for this) .*denied|Blocked: |.*denied by the Claude Code",
         "harness"),
    Rule("command_timeout", "timeout", r"(Exit code \d+\s+)?Command timed out after", confidence=0.8),
    Rule("exit_code", "exit_code", r"Exit code -?\d+"),
    Rule("no_such_tool", "tool_not_found", r"(Error: )?No such tool available: "),
    Rule("no_such_agent", "tool_not_found", r"Agent type '.*' not found|Unknown skill: |Skill \S+ is not "),
    Rule("unparsed_input", "json_decode", r"InputValidationError: .* could not be parsed as JSON"),
    Rule("input_validation", "type_error", r"InputValidationError|\[\s*\{\s*\"code\":|.*Argument Validation Error"),
    Rule("edit_target", "edit_mismatch", r"String to replace not found|Found \d+ matches of the|No changes to make"),
    Rule("edit_unread", "edit_precondition", r"File has not been read yet|File has been .*modified since read"),
    Rule("missing_path", "file_not_found", r"(File|Path|Directory) does not exist|(Error: )?(ENOENT|EISDIR|ENOTDIR)\b"),
    Rule("size_limit", "limit", r".*exceeds maximum allowed (tokens|size)"),
    Rule("tool_timeout", "timeout", r"[^\n]*([Tt]imed out after|TimeoutError)", "environment", 0.8),
    # Before 2.0 a failed command showed its output only.
    Rule("shell_output", "exit_code", r"", confidence=0.7, tool="Bash"),
)  # fmt: skip

TOOLBOX_RULES: tuple[Rule, ...] = (
    Rule("no_tool", "tool_not_found", r"tool_not_found: "),
    Rule("not_a_call", "json_decode", r"json_decode: "),
    Rule("wrong_type", "type_error", r"type_error: "),
    Rule("refused", "runtime_error", r"runtime_error: "),
)

ANY_FAILURE = Rule("any_failure", "runtime_error", r"", confidence=0.5)

RULES: dict[str, tuple[Rule, ...]] = {
    "claude_code": CLAUDE_CODE_RULES,
    "toolbox": TOOLBOX_RULES,
}


def unwrap(agent: str, content: str) -> str:
    """The error text as its author wrote it, cut to `HEAD_CHARS`."""
    if agent == "toolbox":
        content = content.removeprefix(TOOLBOX_PREFIX)
    return WRAPPING.sub("", content[: 2 * HEAD_CHARS]).strip()[:HEAD_CHARS]


def classify(agent: str, text: str, tool_name: str | None) -> Rule:
    """The first rule that fits an unwrapped error text."""
    rules = RULES.get(agent, ())
    return next((rule for rule in rules if rule.matches(text, tool_name)), ANY_FAILURE)
