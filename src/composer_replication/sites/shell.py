"""What a shell command was for, as far as its text tells: which programs it runs and whether it hides their status."""

from __future__ import annotations

import re
from typing import Any, NamedTuple, cast

from composer_replication.records import ToolCall, arguments_written

SHELL_TOOLS = frozenset({
    "bash", "shell", "sh", "powershell", "pwsh", "terminal", "exec", "exec_command", "execute_command", "execute_bash",
    "run", "run_command", "run_commands", "run_shell_command", "run_terminal_cmd", "local_shell", "container.exec",
    "shell_command", "command", "cmd", "run_in_terminal", "execute_ipython_cell", "run_ipython", "ipython", "python",
    "bash_command", "execute", "unified_exec", "write_stdin",
})  # fmt: skip
PURPOSE_KEYS = ("description", "summary", "explanation")
COMMAND_KEYS = ("command", "cmd", "commands", "keystrokes", "script", "code", "input", "chars")

READERS = frozenset({
    "cat", "head", "tail", "less", "more", "nl", "sed", "awk", "grep", "egrep", "fgrep", "rg", "ag", "find", "fd", "ls",
    "tree", "wc", "sort", "uniq", "cut", "tr", "jq", "yq", "xxd", "od", "strings", "file", "stat", "du", "df", "diff",
    "echo", "printf", "cd", "pwd", "export", "source", "set", "which", "type", "env", "true", "column", "tee", "xargs",
    "gh", "sleep", "date", "open", "scroll_up", "scroll_down", "goto", "search_file", "search_dir", "find_file",
})  # fmt: skip
READING_GIT = frozenset({"log", "show", "diff", "status", "blame", "grep", "ls-files", "branch", "remote", "rev-parse"})
PROBES = frozenset({
    "grep", "egrep", "fgrep", "rg", "ag", "diff", "cmp", "test", "[", "[[", "which", "type", "pgrep", "find", "fd", "gh",
})  # fmt: skip
"""Programs that answer a question by their exit status; `gh` says so when what it looks up does not exist."""

REMOVERS = frozenset({"rm", "rmdir", "mv", "unlink", "trash"})
LOOKERS = frozenset({"ls", "stat", "test", "[", "find", "cat", "file"})

IN_A_SCRIPT = "tools.exec_command("
"""Codex can run commands from a script; the harness then reports the script's status."""
_SEPARATOR = re.compile(r"\|\||&&|[|;\n&]")
_HEREDOC = re.compile(r"<<-?\s*['\"]?(\w+)['\"]?.*?^\1$", re.DOTALL | re.MULTILINE)
_QUOTED = re.compile(r"'[^']*'|\"(?:\\.|[^\"\\])*\"", re.DOTALL)
_REDIRECTION = re.compile(r"\d?>>?&?\s*(/dev/null|\d)|&>\s*/dev/null")
_WRITES = re.compile(r"\bsed\b[^|;&]*\s-i|>|\btee\b")
_SILENCED = re.compile(r"(?:2|&)>\s*/dev/null\b")
_END_OF_PART = re.compile(r"&&|\|\||[;\n]")
_ASSIGNMENT = re.compile(r"^\w+=\S*$")
_WRAPPERS = frozenset({
    "sudo", "time", "timeout", "nohup", "env", "command", "exec", "xvfb-run", "stdbuf", "nice", "then", "do", "else", "if",
    "while", "!", "(", "{",
})  # fmt: skip
_CLOSERS = frozenset({"done", "fi", "esac", "}", ")", "for", "in", "case"})
_FILTERS = "head|tail|grep|egrep|sed|awk|cat|tee|sort|uniq|wc|cut|tr|less|jq|rg|xargs|column"
_HIDES_STATUS = re.compile(
    rf"\|\s*({_FILTERS})\b|\|\|\s*(true|:)(\s|$)|;\s*(true|exit 0|:)(\s|$)|;\s*(echo|cat|ls)\b|\bset \+e\b"
)
_EXPECTS_FAILURE = re.compile(r"\|\|\s*(echo|printf)\b")


class Program(NamedTuple):
    name: str
    argument: str

    @property
    def reads(self) -> bool:
        if self.name == "git":
            return self.argument in READING_GIT
        return self.name in READERS


def command_of(call: ToolCall | None) -> str | None:
    """The shell command of a call, or None if the call is not one."""
    if call is None:
        return None
    name = call["function"]["name"].lower().rsplit("__", 1)[-1]
    if name not in SHELL_TOOLS:
        return None
    arguments = arguments_written(call)
    if not isinstance(arguments, dict):
        return str(arguments)
    fields = cast(dict[str, Any], arguments)
    value = next((fields[key] for key in COMMAND_KEYS if key in fields), "")
    return " ".join(map(str, cast(list[Any], value))) if isinstance(value, list) else str(value)


def programs(command: str) -> list[Program]:
    """The programs that a command line runs, in order. Quoted text and here-documents are not looked into."""
    found: list[Program] = []
    for part in _SEPARATOR.split(_bare(command)):
        words = part.split()
        while words and (words[0] in _WRAPPERS or _ASSIGNMENT.match(words[0]) or words[0].startswith("-")):
            wrapper = words.pop(0)
            if wrapper == "timeout" and words:
                words.pop(0)
        if words and words[0] not in _CLOSERS:
            rest = [word for word in words[1:] if not word.startswith("-")]
            found.append(Program(words[0].rsplit("/", 1)[-1].lstrip("("), rest[0] if rest else ""))
    return found


def only_reads(command: str) -> bool:
    """Whether all the command does is show things: its output then quotes errors of others."""
    found = programs(command)
    return bool(found) and all(program.reads for program in found)


def may_write(command: str) -> bool:
    """Whether a file may be another one afterwards."""
    return not only_reads(command) or _WRITES.search(_bare(command)) is not None


def is_probe(command: str) -> bool:
    """Whether the last program answers a question by its exit status."""
    found = programs(command)
    return bool(found) and found[-1].name in PROBES


def hides_status(command: str) -> bool:
    """Whether the status that the harness sees is not that of the program which matters."""
    return IN_A_SCRIPT in command or _HIDES_STATUS.search(_bare(command)) is not None


def expects_failure(command: str) -> bool:
    """Whether the command has an answer ready for its own failure: it asks a question."""
    return _EXPECTS_FAILURE.search(_bare(command)) is not None


def silences_errors(command: str) -> bool:
    """Whether the last program throws its own complaints away: it may well find nothing."""
    return _SILENCED.search(_END_OF_PART.split(_unquoted(command).strip())[-1]) is not None


def looks_for_what_it_removed(command: str) -> bool:
    """Whether the last program shows that something is gone."""
    found = programs(command)
    removed = any(p.name in REMOVERS or (p.name == "git" and p.argument == "rm") for p in found[:-1])
    return removed and found[-1].name in LOOKERS


def purpose_of(call: ToolCall | None) -> str:
    """What the agent says in the call itself that the call is for."""
    fields = arguments_of(call) if call else {}
    return "\n".join(str(fields[key]) for key in PURPOSE_KEYS if fields.get(key))


def arguments_of(call: ToolCall) -> dict[str, Any]:
    arguments = arguments_written(call)
    return cast(dict[str, Any], arguments) if isinstance(arguments, dict) else {}


def _bare(command: str) -> str:
    return _REDIRECTION.sub(" ", _unquoted(command))


def _unquoted(command: str) -> str:
    return _QUOTED.sub("Q", _HEREDOC.sub(" ", command))
