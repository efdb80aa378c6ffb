"""How a tool result is read: tables of rules, tried in order, the first match wins.

Order: what is nobody's error; what the user, a hook or the harness refused; then the kinds from the most specific to the
most general. Patterns look at the first `HEAD_CHARS` characters, without the wrapping that the harness puts around an
error, and most are anchored there, because tool output quotes error texts of other programs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from composer_replication.records import ErrorKind, Fault

HEAD_CHARS = 800
WRAPPING = re.compile(r"</?tool_use_error>|</?error>|^(OBSERVATION|ERROR|Error):\s*\n", re.MULTILINE)
TOOLBOX_PREFIX = "error: "
ToolGroup = Literal["shell", "other"]


@dataclass(frozen=True)
class ResultRule:
    """`kind` None says that the result is no one's error.

    A rule that is not `evident` needs a result which the harness flagged as failed; an evident one quotes a sentence
    that only a tool itself writes. `tools` limits a rule to shells or to other tools.
    """

    name: str
    kind: ErrorKind | None
    pattern: str
    fault: Fault = "policy"
    confidence: float = 1.0
    tools: ToolGroup | None = None
    evident: bool = False
    compiled: re.Pattern[str] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "compiled", re.compile(self.pattern, re.DOTALL))

    def matches(self, text: str, is_shell: bool, flagged: bool) -> bool:
        if (
            not (flagged or self.evident)
            or (self.tools == "shell" and not is_shell)
            or (self.tools == "other" and is_shell)
        ):
            return False
        return self.compiled.match(text) is not None


CLAUDE_CODE_RULES: tuple[ResultRule, ...] = (
    ResultRule("cancelled_sibling", None, r"Sibling tool call errored|Cancelled: parallel tool call"),
    ResultRule("interrupted", None, r"\[Request interrupted by user"),
    ResultRule("user_rejection", "user_rejection", r"The user doesn't want to |User rejected tool use", "user"),
    ResultRule("hook_error", "hook_block", r"\w+:\S+ hook (error|blocked)", "harness"),
    ResultRule("commit_hook", "hook_block", r"Pre-?commit \w+ failed", "harness", 0.7),
    ResultRule("auto_mode_down", "permission", r"\S+ is temporarily unavailable, so auto mode", "harness"),
    ResultRule("denied", "permission", r"Permission (to use|for this) .*denied|Blocked: |.*denied by the Claude Code",
         "harness"),
    ResultRule("command_timeout", "timeout", r"(Exit code \d+\s+)?Command timed out after", confidence=0.8),
    ResultRule("no_such_tool", "tool_not_found", r"(Error: )?No such tool available: "),
    ResultRule("no_such_agent", "tool_not_found", r"Agent type '.*' not found|Unknown skill: |Skill \S+ is not "),
    ResultRule("unparsed_input", "json_decode", r"InputValidationError: .* could not be parsed as JSON"),
    ResultRule("input_validation", "type_error", r"InputValidationError|\[\s*\{\s*\"code\":|.*Argument Validation Error"),
    ResultRule("edit_target", "edit_mismatch", r"String to replace not found|Found \d+ matches of the|No changes to make"),
    ResultRule("edit_unread", "edit_precondition", r"File has not been read yet|File has been .*modified since read"),
    ResultRule("missing_path", "file_not_found", r"(File|Path|Directory) does not exist|(Error: )?(ENOENT|EISDIR|ENOTDIR)\b"),
    ResultRule("exit_code", "exit_code", r"Exit code -?\d+", tools="other"),
    ResultRule("size_limit", "limit", r".*exceeds maximum allowed (tokens|size)"),
)  # fmt: skip

CODEX_RULES: tuple[ResultRule, ...] = (
    ResultRule("aborted", None, r"aborted by user|.*\baborted by user after"),
    ResultRule("no_such_tool", "tool_not_found", r"unsupported (custom tool )?call: ", evident=True),
    ResultRule("missing_field", "type_error", r"failed to parse function arguments: (missing|unknown|invalid type)", evident=True),
    ResultRule("unparsed_input", "json_decode", r"failed to parse function arguments: ", evident=True),
    ResultRule("patch_target", "edit_mismatch",
         r"apply_patch verification failed: (Failed to find|Invalid)|.*Failed to find (expected lines|context)", evident=True),
    ResultRule("patch_path", "file_not_found", r"apply_patch verification failed: Failed to read", evident=True),
    ResultRule("patch_grammar", "json_decode", r"apply_patch handler received (invalid|non-apply_patch)|.*invalid (hunk|patch) at",
         evident=True),
    ResultRule("sandbox", "permission", r".*(failed in sandbox|sandbox denied)", "harness"),
)  # fmt: skip

MINI_SWE_AGENT_RULES: tuple[ResultRule, ...] = (
    ResultRule("no_action", "no_action", r"Please always provide EXACTLY ONE action[^\n]* found 0 |.*No tool calls found", evident=True),
    ResultRule("not_one_action", "json_decode", r"Please always provide EXACTLY ONE action", evident=True),
    ResultRule("command_timeout", "timeout", r"The last command.*timed out|(<exception>)?.*timed out (and has been killed|after \d+ seconds)", evident=True),
    ResultRule("output_limit", "limit", r".*The output of your last command was too long", tools="shell", evident=True),
)  # fmt: skip

# Aider tells of all edits of a turn in one text, also of those that it made: only the flag says which failed.
AIDER_RULES: tuple[ResultRule, ...] = (
    ResultRule("edit_target", "edit_mismatch", r".{0,80}(LLM did not conform|SEARCH/REPLACE block)"),
)

TOOLBOX_RULES: tuple[ResultRule, ...] = (
    ResultRule("no_tool", "tool_not_found", r"tool_not_found: "),
    ResultRule("not_a_call", "json_decode", r"json_decode: "),
    ResultRule("wrong_type", "type_error", r"type_error: "),
    ResultRule("refused", "runtime_error", r"runtime_error: "),
)

CODE_TASK_RULES: tuple[ResultRule, ...] = (ResultRule("visible_tests", "runtime_error", r"The block was put in, and "),)

ANY_AGENT_RULES: tuple[ResultRule, ...] = (
    ResultRule("rejected", "user_rejection",
         r".{0,80}(rejected by (the )?user|user (rejected|denied|declined|did not allow|refused)|denied (this operation|by user))",
         "user"),
    ResultRule("refused", "permission", r".{0,80}(permission (was )?denied and could not|not (allowed|permitted) (by|to run|in this)|"
         r"blocked by (policy|the sandbox)|requires approval)", "harness", tools="other"),
    ResultRule("unknown_tool", "tool_not_found",
         r".{0,40}(unknown|unsupported|invalid|no such) (tool|function)\b(?! call)|.{0,40}\b(tool|function) .{1,80} "
         r"(not found|does not exist|is not (available|registered|defined))|.{0,20}not found in registry", tools="other"),
    ResultRule("many_commands", "json_decode", r".{0,60}Cannot execute multiple commands at once", evident=True),
    ResultRule("no_action", "no_action",
         r"Your (last )?(output|response) did not|Your response could not be parsed: [^\n]*\bcode block\b", evident=True, tools="other"),
    ResultRule("format_error", "json_decode",
         r"Your (last )?(output|response) (was not formatted|could not be parsed)|.{0,60}(failed to|could not|unable to) "
         r"pars(e|ing) .{0,30}(json|argument|tool call|action)", evident=True, tools="other"),
    ResultRule("bad_arguments", "type_error",
         r".{0,120}(Missing required (parameter|argument|property)|missing \d+ required|[Rr]equired (parameter|property)|"
         r"is required for command|unexpected keyword argument|Invalid `view_range`|is not an absolute path|"
         r"(must|should) be (an )?absolute|`view_range` parameter is not allowed|validation error|Error validating|invalid_type|"
         r"Invalid (arguments|parameters|type)|must be (a|an|of type) (string|number|integer|array|boolean|object))",
         tools="other", evident=True),
    ResultRule("edit_text_missing", "edit_mismatch",
         r".{0,60}(No replacement was performed|did not appear verbatim|Multiple occurrences of|old_str(ing)? .{0,40}not found|"
         r"0 occurrences found|[Nn]o match(es)? found (for|in)|SearchReplaceNoExactMatch|does not match|"
         r"new_str(ing)? .{0,40}(are|is) (the same|identical)|could not find the (string|text)|SEARCH block)",
         tools="other", evident=True),
    ResultRule("edit_in_a_cell", "edit_mismatch", r"\[No exact match found in ", evident=True),
    ResultRule("file_exists", "edit_precondition",
         r".{0,60}(File already exists at|has not been read|modified since)|.{0,300}Cannot overwrite", tools="other", evident=True),
    ResultRule("path_missing", "file_not_found",
         r".{0,30}([Tt]he path|Path|File|Directory|[Pp]arent directory|Invalid `path` parameter)[^\n]{0,200}"
         r"(does not exist|not found|is a directory|no such)|.{0,60}(No such file or directory|ENOENT|EISDIR)|File .{1,200} not found",
         tools="other", evident=True),
    ResultRule("linter", "runtime_error", r".{0,40}proposed edit has introduced new syntax", evident=True),
    ResultRule("too_large", "limit", r".{0,120}(too (large|long|many)|exceeds? (the )?(maximum|limit)|maximum (size|length))", tools="other"),
    ResultRule("tool_timeout", "timeout", r"[^\n]{0,120}([Tt]imed out after|TimeoutError|timeout exceeded)", "environment", 0.8),
    ResultRule("error_limit", "limit", r"(ERROR|Error)[: ][^\n]{0,120}(too (large|long)|exceeds)", tools="other", evident=True),
    ResultRule("error_timeout", "timeout", r"(ERROR|Error)[: ][^\n]{0,120}[Tt]imed out", "environment", 0.7, tools="other", evident=True),
    ResultRule("tool_error", "runtime_error", r"(ERROR|Error)(:| )", tools="other", evident=True, confidence=0.7),
)  # fmt: skip

ANY_COMMAND = ResultRule("any_command", "exit_code", r"", confidence=0.9)
ANY_FAILURE = ResultRule("any_failure", "runtime_error", r"", confidence=0.5)
HIDDEN_STATUS = ResultRule("hidden_status", "silent_failure", r"", confidence=0.6)
SHOWN_FAILURE = ResultRule("shown_failure", "exit_code", r"", confidence=0.7)

RULES: dict[str, tuple[ResultRule, ...]] = {
    "claude_code": CLAUDE_CODE_RULES,
    "codex": CODEX_RULES,
    "mini_swe_agent": MINI_SWE_AGENT_RULES,
    "aider": AIDER_RULES,
    "toolbox": TOOLBOX_RULES,
    "code_task": CODE_TASK_RULES,
}
STATUS_AGENTS = frozenset({"claude_code", "codex", "openhands", "mini_swe_agent", "gemini_cli", "copilot_cli"})
"""Agents whose harness tells whether a command failed."""

ENVIRONMENT = re.compile(
    r"\b(EAI_AGAIN|ENOTFOUND|ETIMEDOUT|ECONNRESET)\b|"
    r"(?i:Could not resolve host|Temporary failure in name resolution|Network is unreachable|(Read|Connection) timed out|"
    r"No space left on device|\b50[234] (Bad Gateway|Service Unavailable|Gateway)|rate limit|"
    r"(token|credentials?) (has |have |is )?expired)"
)
"""Codes are read letter by letter: `ModuleNotFoundError` holds the letters of ENOTFOUND, and is the policy's to mend."""


def unwrap(agent: str, content: str) -> str:
    """The error text as its author wrote it."""
    if agent == "toolbox":
        content = content.removeprefix(TOOLBOX_PREFIX)
    return WRAPPING.sub("", content[: 4 * HEAD_CHARS]).strip() + content[4 * HEAD_CHARS :]


def rules_for(agent: str) -> Iterator[ResultRule]:
    yield from RULES.get(agent, ())
    if agent != "toolbox":
        yield from ANY_AGENT_RULES


def first_match(agent: str, text: str, is_shell: bool, flagged: bool) -> ResultRule | None:
    head = text[:HEAD_CHARS]
    return next((rule for rule in rules_for(agent) if rule.matches(head, is_shell, flagged)), None)
