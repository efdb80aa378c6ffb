"""Tool calls of every agent as steps."""
# ruff: noqa: E501 - cases are easier to read unbroken

import json
from collections import Counter

import pytest

from composer_replication.ingestion import read_traces
from composer_replication.monitor.acts import acts_of
from composer_replication.monitor.steps import steps_of
from composer_replication.records import Source, Trace, Turn
from tests.samples import SAMPLES, sample_files

PLANS_AND_TALK = {
    "TaskUpdate", "TaskCreate", "TodoWrite", "Task", "Agent", "WebFetch", "WebSearch", "Skill", "submit", "ToolSearch", "finish",
    "ExitPlanMode", "AskUserQuestion", "update_plan", "web_search", "stop_bash", "read_bash", "write_stdin", "bash", "exec",
    "collaboration__wait_agent", "collaboration__spawn_agent", "collaboration__list_agents", "mcp__Claude_Browser__computer",
    "mcp__Claude_Browser__preview_start", "mcp__Claude_Browser__get_page_text", 'Task" >\n<parameter name="description',
}  # fmt: skip
"""Tools of the samples whose calls may be `other`: they plan, ask, wait, or type nothing into a shell."""


def trace_of(*calls, results=()):
    messages = []
    turns = []
    for number, (name, arguments) in enumerate(calls):
        text = arguments if isinstance(arguments, str) else json.dumps(arguments)
        call = {"id": f"c{number}", "type": "function", "function": {"name": name, "arguments": text}}
        turns.append(Turn(start=len(messages), end=len(messages) + 2))
        messages.append({"role": "assistant", "content": "I reason aloud", "tool_calls": [call]})
        messages.append(
            {"role": "tool", "tool_call_id": f"c{number}", "content": f"result {number}", "is_error": number == 1}
        )
    return Trace(trace_id="t", source=Source(agent="a"), messages=tuple(messages), turns=tuple(turns))


def step(name, arguments):
    return steps_of(trace_of((name, arguments)))[0]


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("bash", {"command": "ls -a"}),
        ("Bash", {"command": "ls -a", "description": "look"}),
        ("shell", {"command": ["bash", "-lc", "ls -a"]}),
        ("exec_command", {"cmd": "ls -a"}),
        ("execute_bash", {"command": "ls -a"}),
        ("run_shell_command", {"command": "ls -a"}),
        ("run_commands", {"commands": ["ls -a"]}),
        ("bash_command", {"keystrokes": "ls -a\n", "duration": 1}),
        ("terminal", {"command": "ls -a"}),
        ("mcp__box__execute_command", {"command": "ls -a"}),
        ("exec", {"input": 'const r = await tools.exec_command({"cmd":"ls -a","workdir":"/x"});'}),
        ("write_stdin", {"chars": "ls -a\n", "session_id": 1}),
        ("bash", "ls -a"),
    ],
)
def test_commands(name, arguments):
    found = step(name, arguments)
    assert (found.kind, found.command.strip()) == ("command", "ls -a")


@pytest.mark.parametrize(
    ("name", "arguments", "kind", "path", "text", "old"),
    [
        ("read_file", {"path": "a.py"}, "read", "a.py", "", ""),
        ("Read", {"file_path": "a.py", "limit": 3}, "read", "a.py", "", ""),
        ("read_files", {"files": [{"path": "a.py", "start_line": 1}]}, "read", "a.py", "", ""),
        ("str_replace_editor", {"command": "view", "path": "a.py"}, "read", "a.py", "", ""),
        ("write_file", {"path": "a.py", "content": "x"}, "write", "a.py", "x", ""),
        ("Write", {"file_path": "a.py", "content": "x"}, "write", "a.py", "x", ""),
        ("str_replace_editor", {"command": "create", "path": "a.py", "file_text": "x"}, "write", "a.py", "x", ""),
        ("search_replace", {"path": "a.py", "search": "", "replace": "x"}, "write", "a.py", "x", ""),
        ("edit_file", {"path": "a.py", "old": "y", "new": "x"}, "edit", "a.py", "x", "y"),
        ("Edit", {"file_path": "a.py", "old_string": "y", "new_string": "x"}, "edit", "a.py", "x", "y"),
        ("MultiEdit", {"file_path": "a.py", "edits": [{"old_string": "y", "new_string": "x"}]}, "edit", "a.py", "x", "y"),
        ("str_replace_editor", {"command": "str_replace", "path": "a.py", "old_str": "y", "new_str": "x"}, "edit", "a.py", "x", "y"),
        ("editor", {"path": "a.py", "old_text": "y", "new_text": "x"}, "edit", "a.py", "x", "y"),
        ("Grep", {"pattern": "x", "path": "src"}, "search", "src", "", ""),
        ("run_tests", {}, "tests", "", "", ""),
        ("TodoWrite", {"todos": []}, "other", "", "", ""),
        ("write_stdin", {"chars": ""}, "other", "", "", ""),
    ],
)  # fmt: skip
def test_files(name, arguments, kind, path, text, old):
    found = step(name, arguments)
    assert (found.kind, found.path, found.text, found.old) == (kind, path, text, old)


def test_results_follow_their_calls_and_reasoning_is_left_out():
    found = steps_of(trace_of(("bash", {"command": "ls"}), ("bash", {"command": "pwd"})))
    assert [(each.number, each.turn, each.output) for each in found] == [(0, 0, "result 0"), (1, 1, "result 1")]
    assert "reason aloud" not in str(found)


def test_the_commands_of_swe_agent():
    opened, edited = steps_of(
        trace_of(("bash", {"command": "open a.py"}), ("bash", {"command": "edit 1:2\nrm -rf x\nend_of_edit"}))
    )
    assert (opened.kind, opened.path) == ("read", "a.py")
    assert (edited.kind, edited.path, edited.text) == ("edit", "a.py", "rm -rf x")


@pytest.mark.parametrize(
    "patch",
    [
        "*** Begin Patch\n*** Update File: a.py\n@@\n-old\n+new\n*** Delete File: b.py\n*** End Patch",
        "diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-old\n+new\n--- a/b.py\n+++ /dev/null\n@@\n-x\n",
    ],
)
def test_patches_say_what_they_do_to_which_file(patch):
    first, second = acts_of(step("apply_patch", {"input": patch}))
    assert (first.verb, first.target, first.text.strip(), first.old.strip()) == ("write", "a.py", "new", "old")
    assert (second.verb, second.target) == ("delete", "b.py")


def test_every_format_is_mapped():
    mapped: dict[str, Counter[bool]] = {}
    for path in sample_files():
        if "base_state" in path.name or "/subagents/" in str(path) or path.parent.name == "verifiers":
            # The samples of verifiers have arithmetic for tools.
            continue
        for trace in read_traces(path, redact=False):
            calls = [
                call["function"]["name"]
                for turn in trace.turns
                for call in trace.messages[turn.start].get("tool_calls", [])
            ]
            steps = steps_of(trace)
            assert [each.tool for each in steps] == calls
            others = {each.tool for each in steps if each.kind == "other"}
            assert others <= PLANS_AND_TALK
            count = mapped.setdefault(path.relative_to(SAMPLES).parts[0], Counter())
            count.update(each.kind != "other" for each in steps)
    assert all(count[True] for count in mapped.values())
    assert min(count[True] / count.total() for count in mapped.values()) > 0.7
