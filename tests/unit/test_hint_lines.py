"""Which line of an error a hint quotes, and what it steers to. The texts are made up after those of real sessions."""

from __future__ import annotations

import pytest

from composer_replication.hints import dispatch
from composer_replication.hints.facts import error_line
from composer_replication.hints.wording import count_tokens
from tests.unit.test_hints import SCHEMA, hint_for, one_turn, site

SESSION_TOOLS = ("execute_bash", "finish", "str_replace_editor", "think")
GO_TEST = """=== RUN   TestShell/nu
    shell_test.go:50: nu not found on PATH, skipping
--- FAIL: TestShell (4.51s)
    --- FAIL: TestShell/bash (0.11s)
    --- PASS: TestShell/zsh (0.12s)
FAIL	example.org/shell/e2e	21.236s"""
PYTEST_SKIPS = """tests/test_a.py::test_one SKIPPED (no network: connection error)
tests/test_a.py::test_two FAILED
FAILED tests/test_a.py::test_two - assert 3 == 4"""
PIP = """  error: subprocess-exited-with-error
  note: This error originates from a subprocess, and is likely not a problem with pip.
ERROR: No matching distribution found for leftpadd"""
PIP_NOTE_FIRST = """note: This error originates from a subprocess, and is likely not a problem with pip.
gcc: fatal error: cannot execute cc1"""
REGEX = """Traceback (most recent call last):
  File "/app/a.py", line 7, in <module>
    re.compile(pattern)
  File "/lib/re/_parser.py", line 867, in _parse
    raise source.error("missing ), unterminated subpattern",
re.error: missing ), unterminated subpattern at position 3"""
INTERPRETER = """Traceback (most recent call last):
  File "/app/a.py", line 13, in <module>
    run()
TypeError: run() got an unexpected keyword argument 'fast'[Python Interpreter: /opt/env/bin/python]
root@box:/app #
[Command finished with exit code 1]"""
WARNED = """DeprecationWarning: core is deprecated and has been renamed
ERROR: while parsing the configuration: no module named mould"""
SEARCH = """rg: settings.toml: No such file or directory (os error 2)
plugins/market.json:16:  "name": "trace","""
NODE = """node:events:497
      throw er; // Unhandled 'error' event
      ^

Error: listen EPERM: operation not permitted 127.0.0.1"""
LINTER = """Your proposed edit has introduced new syntax error(s). Please read this and then retry.

ERRORS:
- E999 IndentationError: unexpected indent

This is how your edit would have looked if applied
"""


@pytest.mark.parametrize(
    ("message", "line"),
    [
        (GO_TEST, "--- FAIL: TestShell (4.51s)"),
        (PYTEST_SKIPS, "FAILED tests/test_a.py::test_two - assert 3 == 4"),
        (PIP, "ERROR: No matching distribution found for leftpadd"),
        (PIP_NOTE_FIRST, "gcc: fatal error: cannot execute cc1"),
        (REGEX, "re.error: missing ), unterminated subpattern at position 3"),
        (INTERPRETER, "TypeError: run() got an unexpected keyword argument 'fast'"),
        (WARNED, "ERROR: while parsing the configuration: no module named mould"),
        (SEARCH, "rg: settings.toml: No such file or directory (os error 2)"),
        (NODE, "Error: listen EPERM: operation not permitted 127.0.0.1"),
        ("Found 1 error.\nsrc/a.ts(8,9): error TS2322: no such type", "src/a.ts(8,9): error TS2322: no such type"),
        (
            "Checked 8 files. No fixes applied.\n 35 35 │ <p>No results</p>\n× Some errors were emitted",
            "× Some errors were emitted",
        ),
        ("** (ArgumentError) not a map\n test/a_test.exs:104: Web.Test.post/1", "** (ArgumentError) not a map"),
        ("error: found 1 error\n\n  app check --fast\n            ^ Unknown arguments", "Unknown arguments"),
        (
            "ImportError: You import x from a checkout without building it first. Either run:\n\n  pip install -e .",
            "ImportError: You import x from a checkout without building it first",
        ),
        (LINTER, "E999 IndentationError: unexpected indent"),
    ],
)
def test_the_line_that_failed_is_quoted(message, line):
    assert error_line(message) == line


@pytest.mark.parametrize(
    ("message", "line"),
    [
        (
            'a/long/way/to/env.go:25:2: "github.com/go-git/go-git/v5/plumbing/format/config" imported and not used',
            'env.go:25:2: "github.com/go-git/go-git/v5/plumbing/format/config" imported and not used',
        ),
        (
            'error: cannot use one.Two() (value of type *"github.com/go-git/go-git/v5/plumbing/format/config.Config" '
            "as *config.Config value in return)",
            "error: cannot use one.Two()…",
        ),
        (
            f"sed: can't read /home/{'deep/' * 30}x.py: No such file or directory",
            "sed: can't read x.py: No such file or directory",
        ),
        (f"error: {'x' * 20}{'/x' * 40}", None),
    ],
)
def test_a_long_line_is_cut_between_words_and_outside_of_brackets(message, line):
    found = error_line(f"Exit code 1\n{message}")
    assert found == line if line else found.startswith("error: xxx") and found.endswith("…")
    assert count_tokens(found) <= 40


def test_what_a_linter_finds_is_to_be_mended_and_not_to_be_checked_for():
    finding = (
        "cmd/cli/logging/context_test.go:81:15: string `claude-code` has 3 occurrences, make it a constant (goconst)"
    )
    text = hint_for(
        site("exit_code", error_message=f"Exit code 1\n[lint] $ golangci-lint run\n{finding}\n1 issues:")
    ).text
    assert text.endswith("3 occurrences, make it a constant (goconst). Mend that before running it.")
    assert text.startswith("Reminder: what this command checks is not ready. It finds: ")
    plain = hint_for(site("exit_code", error_message="Exit code 1\nsrc/a.go:2:1: undefined: one (and two)")).text
    assert plain.startswith("Reminder: here a command fails with: src/a.go:2:1: undefined")


def test_the_first_line_of_a_tool_that_refuses_is_quoted():
    message = "shell 30 was already stopped.\n\nActive shells:\n  0: cat settings.json 2>/dev/null || echo missing"
    assert "It says: shell 30 was already stopped." in hint_for(site("runtime_error", error_message=message)).text


@pytest.mark.parametrize("kind", ["exit_code", "runtime_error", "type_error", "edit_mismatch", "tool_not_found"])
def test_a_call_that_fails_again_is_told_why_and_not_sent_to_another_tool(kind):
    again = site(
        "repeated_failure", secondary_kind=kind, error_message="KeyError: 'port'", available_tools=SESSION_TOOLS,
        tool_name="execute_bash", tool_schema={}, detector="openhands/same_call",
    )  # fmt: skip
    text = hint_for(again).text
    assert "failed before" in text
    assert "finish" not in text
    assert "Try another one" not in text


def test_a_script_that_fails_again_is_told_its_error():
    again = site(
        "repeated_failure", secondary_kind="exit_code", error_message=INTERPRETER, available_tools=SESSION_TOOLS
    )
    assert "TypeError: run() got an unexpected keyword argument 'fast'." in hint_for(again).text


def test_a_tool_that_ends_the_work_is_never_offered():
    text = dispatch("tool_not_found", {"available_tools": list(SESSION_TOOLS), "tool_name": "finnish"})
    assert text == "Reminder: the tools listed here are execute_bash, str_replace_editor."
    many = [*SESSION_TOOLS, *(f"tool{number}" for number in range(9))]
    assert "finish" not in dispatch("tool_not_found", {"available_tools": many, "tool_name": "finnish"})


@pytest.mark.parametrize("kind", ["type_error", "repeated_failure"])
def test_a_missing_argument_is_named(kind):
    schema = {"properties": {"old_str": {"type": "string"}, "path": {"type": "string"}}}
    missing = site(
        kind, secondary_kind="type_error" if kind == "repeated_failure" else None, tool_schema=schema,
        error_message="Parameter `old_str` is required for command: str_replace.", tool_name="str_replace_editor",
        available_tools=SESSION_TOOLS,
    )  # fmt: skip
    assert "str_replace_editor needs the argument old_str (str)." in hint_for(missing).text


def test_a_tool_that_says_what_is_wrong_with_an_argument_is_quoted():
    schema = {"properties": {"view_range": {"type": "array"}, "path": {"type": "string"}}}
    refused = site(
        "type_error", tool_schema=schema, tool_name="editor",
        error_message="The `view_range` parameter is not allowed when `path` points to a directory.",
    )  # fmt: skip
    assert "The `view_range` parameter is not allowed when `path` points to a directory." in hint_for(refused).text
    assert hint_for(site("type_error", tool_schema=SCHEMA)).text == "Reminder: set_key takes key:str, value:int."


def test_several_commands_at_once_are_not_taken_for_broken_json():
    message = "[An error occurred.]\nCannot execute multiple commands at once.\nProvided commands:\n(1) A=1"
    text = hint_for(site("json_decode", error_message=message)).text
    assert "one command" in text
    assert "}" not in text


def test_an_edit_with_a_syntax_error_is_told_which():
    text = hint_for(site("runtime_error", error_message=LINTER)).text
    assert "E999 IndentationError: unexpected indent." in text
    assert "Use what exists" not in text


def test_lines_of_the_file_are_not_what_a_linter_says():
    message = (
        "[Your proposed edit has introduced new syntax error(s).]\n/a/App.tsx:22\n[This is how it would look]\n21|x = ("
    )
    assert "Here the linter says" not in hint_for(site("runtime_error", error_message=message)).text


def test_a_path_of_the_call_is_cut_out_of_the_line_and_the_line_kept():
    trace = one_turn("", '{"workdir":"/srv/projects/agent"}')
    message = "Exit code 1\nSyntaxError: no export named run in /srv/projects/agent/core/index.js"
    text = hint_for(site("exit_code", error_message=message), trace).text
    assert "SyntaxError: no export named run in …/core/index.js." in text


@pytest.mark.parametrize("kind", ["user_rejection", "interruption"])
def test_what_the_user_asks_for_next_is_never_told(kind):
    message = "The user said:\nThat belongs in core. Can you also write the release notes? Explain how to publish them."
    assert hint_for(site(kind, error_message=message)).text.endswith("says: That belongs in core.")
    only_asks = site(kind, fault="user", error_message="The user said:\nwhat does the parser do?")
    assert hint_for(only_asks) == "fault_user"


def test_a_correction_is_left_to_the_judge():
    """Which turn it is about is not known, and the words may be the next request."""
    assert hint_for(site("correction", error_message="The user said:\nIt belongs in core.")) == "no_layer"


def test_a_script_that_is_there_to_fail_may_fail():
    trace = one_turn("", '{"command":"python reproduce_error.py"}')
    for kind, first in (("exit_code", None), ("repeated_failure", "exit_code")):
        error = site(kind, secondary_kind=first, error_message=f"Exit code 1\n{REGEX}", call_id="c")
        text = hint_for(error, trace).text
        assert "re.error: missing ), unterminated subpattern" in text
        assert "If that is the error to reproduce" in text
        assert "change something" not in text


def test_a_refusal_explained_afterwards_is_told_in_those_words():
    refused = "The user doesn't want to proceed with this tool use. The tool use was rejected."
    message = f"{refused}\n\nThe user then said:\nNever push to main."
    text = hint_for(site("user_rejection", fault="user", error_message=message)).text
    assert text == "Reminder: about this step the user says: Never push to main."
