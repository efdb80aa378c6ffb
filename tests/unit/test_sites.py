"""Error sites: what each failure text means, whose fault it is, and when it is a repetition."""

from __future__ import annotations

import json
from typing import NamedTuple

import pytest

from composer_replication.config import ToolboxConfig
from composer_replication.environments.toolbox import Call, ToolboxEpisode, ToolboxTask, make_task
from composer_replication.environments.toolbox import trace_of as episode_trace
from composer_replication.records import ErrorSite, Message, Source, ToolCall, Trace, Turn, content_id
from composer_replication.sites import find_sites
from composer_replication.sites.gold import score

REJECTED = "The user doesn't want to proceed with this tool use. The tool use was rejected."
TOOLS = (
    {"type": "function", "function": {"name": "get_key", "parameters": {"properties": {"key": {"type": "string"}}}}},
)


class Did(NamedTuple):
    """One call and its result; `error` None is a success."""

    error: str | None = None
    name: str = "Tool"
    arguments: str = "{}"
    flagged: bool = True


def trace_of(*turns: list[Did], agent: str = "claude_code") -> Trace:
    messages: list[Message] = [{"role": "system", "content": "s"}]
    spans: list[Turn] = []
    for number, turn in enumerate(turns):
        start = len(messages)
        calls: list[ToolCall] = [
            {"id": f"{number}.{i}", "type": "function", "function": {"name": did.name, "arguments": did.arguments}}
            for i, did in enumerate(turn)
        ]
        messages.append({"role": "assistant", "content": "", "tool_calls": calls})
        for call, did in zip(calls, turn, strict=True):
            answer: Message = {"role": "tool", "content": did.error or "ok", "tool_call_id": call["id"]}
            if did.error and did.flagged:
                answer["is_error"] = True
            messages.append(answer)
        spans.append(Turn(start=start, end=len(messages)))
    return Trace(
        trace_id="t", source=Source(agent=agent), messages=tuple(messages), turns=tuple(spans), tools=TOOLS
    )  # fmt: skip


def kinds(trace: Trace) -> list[tuple[int, str, str | None]]:
    return [(site.turn, site.error_kind, site.secondary_kind) for site in find_sites(trace)]


CLAUDE_CODE_TEXTS = [
    ("Exit code 1\nFAIL", "exit_code", "policy"),
    ("Exit code 143\nCommand timed out after 2m 0s", "timeout", "policy"),
    ("Exit code 1\nPermission to use the port denied", "exit_code", "policy"),
    (REJECTED, "user_rejection", "user"),
    ("<tool_use_error>File does not exist.</tool_use_error>", "file_not_found", "policy"),
    ("EISDIR: illegal operation on a directory, read", "file_not_found", "policy"),
    ("<tool_use_error>String to replace not found in file.\nString: Exit code 1</tool_use_error>", "edit_mismatch",
     "policy"),
    ("<tool_use_error>Found 3 matches of the string to replace, but</tool_use_error>", "edit_mismatch", "policy"),
    ("<tool_use_error>File has not been read yet. Read it first</tool_use_error>", "edit_precondition", "policy"),
    ("<tool_use_error>File has been modified since read, either by</tool_use_error>", "edit_precondition", "policy"),
    ("<tool_use_error>Error: No such tool available: Grab</tool_use_error>", "tool_not_found", "policy"),
    ("Agent type 'x' not found. Available agents: y", "tool_not_found", "policy"),
    ("<tool_use_error>Unknown skill: commit</tool_use_error>", "tool_not_found", "policy"),
    ("File content (806.5KB) exceeds maximum allowed size (256KB).", "limit", "policy"),
    ("<tool_use_error>InputValidationError: Read failed due to the following issue:\nThe parameter offset type is "
     "expected as number but provided as string</tool_use_error>", "type_error", "policy"),
    ("<tool_use_error>InputValidationError: Read was called with input that could not be parsed as JSON.\nYou sent",
     "json_decode", "policy"),
    ("Permission to use Bash with command ls has been denied.", "permission", "harness"),
    ("<tool_use_error>Blocked: sleep 180 followed by: echo</tool_use_error>", "permission", "harness"),
    ("PreToolUse:Write hook error: [check.sh]: no", "hook_block", "harness"),
    ("screenshot failed: Screenshot timed out after 5s", "timeout", "environment"),
    ("Request failed with status code 404", "runtime_error", "policy"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "kind", "fault"), CLAUDE_CODE_TEXTS)
def test_claude_code_texts(text: str, kind: str, fault: str) -> None:
    [site] = find_sites(trace_of([Did(text)]))
    assert (site.error_kind, site.fault) == (kind, fault)


def test_only_the_head_of_a_result_is_read() -> None:
    [site] = find_sites(trace_of([Did("x" * 800 + " exceeds maximum allowed tokens")]))
    assert site.error_kind == "runtime_error"


def test_bare_output_of_a_failed_command() -> None:
    [site] = find_sites(trace_of([Did("ls: cannot access 'types/'", name="Bash")]))
    assert site.error_kind == "exit_code" and site.confidence < 1


def test_successes_and_cancelled_siblings_are_no_sites() -> None:
    sibling = "<tool_use_error>Sibling tool call errored</tool_use_error>"
    parallel = "<tool_use_error>Cancelled: parallel tool call Bash(ls) errored</tool_use_error>"
    assert kinds(trace_of([Did(), Did(sibling), Did(parallel), Did("Exit code 1")])) == [(0, "exit_code", None)]


def test_a_call_that_failed_before_is_a_repetition() -> None:
    first, again = Did("Exit code 1", arguments='{"a":1,"b":2}'), Did("Exit code 2", arguments='{"b": 2, "a": 1}')
    other = Did("Exit code 1", arguments='{"a":2}')
    assert kinds(trace_of([first], [Did()], [other], [Did()], [again])) == [
        (0, "exit_code", None), (2, "exit_code", None), (4, "repeated_failure", "exit_code"),
    ]  # fmt: skip


def failing(number: int, error: str = "Exit code 1") -> Did:
    return Did(error, arguments=json.dumps({"n": number}))


def test_three_failures_of_one_kind_in_a_row_are_a_repetition() -> None:
    assert kinds(trace_of(*([failing(n)] for n in range(4))))[2:] == [
        (2, "repeated_failure", "exit_code"), (3, "repeated_failure", "exit_code"),
    ]  # fmt: skip
    with_success = trace_of([failing(0)], [failing(1)], [Did()], [failing(2)])
    with_other = trace_of([failing(0)], [failing(1)], [failing(2, "EISDIR: x")], [failing(3)])
    for trace in (with_success, with_other):
        assert not [site for site in find_sites(trace) if site.error_kind == "repeated_failure"]


def test_calls_of_one_turn_do_not_repeat_each_other() -> None:
    assert {kind for _, kind, _ in kinds(trace_of([failing(0), failing(0), failing(0)]))} == {"exit_code"}


def test_what_the_user_stops_is_no_repetition() -> None:
    failed, rejected = failing(0), failing(0, REJECTED)
    assert kinds(trace_of([failed], [rejected]))[1] == (1, "user_rejection", None)
    assert kinds(trace_of([rejected], [failed]))[1] == (1, "exit_code", None)
    assert {kind for _, kind, _ in kinds(trace_of(*([Did(REJECTED)] for _ in range(3))))} == {"user_rejection"}


def test_fields_of_a_site() -> None:
    trace = trace_of([Did(), Did("<tool_use_error>Exit code 1 " + "y" * 500 + "</tool_use_error>", name="get_key")])
    assert find_sites(trace) == [
        ErrorSite(
            site_id=content_id("t", 0, "0.1"),
            trace_id="t",
            turn=0,
            state_id=trace.state_id(0),
            error_kind="exit_code",
            error_message="Exit code 1 " + "y" * 500,
            call_id="0.1",
            tool_name="get_key",
            tool_schema={"properties": {"key": {"type": "string"}}},
            available_tools=("get_key",),
            detector="claude_code/exit_code",
        )
    ]
    [unlisted] = find_sites(trace_of([Did("Exit code 1", name="other")]))
    assert unlisted.tool_schema is None


TOOLBOX_TEXTS = [
    ("error: tool_not_found: no tool get_entry", "tool_not_found"),
    ("error: json_decode: the turn is not valid json", "json_decode"),
    ("error: type_error: value must be int", "type_error"),
    ("error: type_error: get_key takes key", "type_error"),
    ("error: runtime_error: no key takes", "runtime_error"),
]


@pytest.mark.parametrize(("text", "kind"), TOOLBOX_TEXTS)
def test_toolbox_texts(text: str, kind: str) -> None:
    [site] = find_sites(trace_of([Did(text, name="get_key")], agent="toolbox"))
    assert site.error_kind == kind
    assert site.error_message == text.removeprefix(f"error: {kind}: ")


def test_toolbox_repeats_only_by_call() -> None:
    trace = trace_of(
        *([failing(n, "error: runtime_error: no key a")] for n in range(3)),
        [failing(0, "error: runtime_error: no key a")],
        agent="toolbox",
    )
    assert [kind for _, kind, _ in kinds(trace)] == ["runtime_error"] * 3 + ["repeated_failure"]


def test_an_unparsable_toolbox_turn_is_a_site() -> None:
    trace = Trace(
        trace_id="t",
        source=Source(agent="toolbox"),
        messages=(
            {"role": "user", "content": "get a"},
            {"role": "assistant", "content": '{"name":"get_key"'},
            {"role": "tool", "content": "error: json_decode: the turn is not valid json", "is_error": True},
        ),
        turns=(Turn(start=1, end=3),),
        tools=TOOLS,
    )
    [site] = find_sites(trace)
    assert (site.error_kind, site.tool_name, site.available_tools) == ("json_decode", None, ("get_key",))
    assert site.site_id == content_id("t", 0, "")


def broken_turns(task: ToolboxTask) -> list[list[str]]:
    """Wrong turns made from a task's own listing, one list per episode."""
    listing = task.listings[0]
    right_types = {name: 1 if expected == "int" else "nowhere" for name, expected in listing.types.items()}
    wrong_types = dict.fromkeys(listing.types)
    missing = Call("nope", {}).render()
    refused, mistyped, incomplete = (
        Call(listing.name, arguments).render() for arguments in (right_types, wrong_types, {})
    )
    return [[missing, refused, missing, refused], [mistyped, incomplete, mistyped, "{"], ["[]"], ['{"name":"a"}']]


def test_sites_agree_with_what_the_toolbox_itself_reports() -> None:
    seen: set[str] = set()
    for index in range(40):
        task = make_task(ToolboxConfig(), "train", index)
        for turns in broken_turns(task):
            episode = ToolboxEpisode(task)
            for turn in turns:
                episode.step(turn)
            reported = [
                (number, turn.error.kind, turn.error.secondary_kind, turn.error.message, turn.error.tool_name)
                for number, turn in enumerate(episode.turns)
                if turn.error
            ]
            found = [
                (site.turn, site.error_kind, site.secondary_kind, site.error_message, site.tool_name)
                for site in find_sites(episode_trace(episode, "tiny", sample=0))
            ]
            assert found == reported
            seen.update(kind for _, kind, *_ in reported)
    assert seen == {"tool_not_found", "json_decode", "type_error", "runtime_error", "repeated_failure"}


def test_an_unknown_agent_gets_the_general_rule() -> None:
    [site] = find_sites(trace_of([Did("boom")], agent="someone"))
    assert (site.error_kind, site.confidence) == ("runtime_error", 0.5)


def shell(
    command: str, output: str, failed: bool = False, agent: str = "claude_code", said: str = "", about: str = ""
) -> Trace:
    """One turn that runs one command."""
    arguments = json.dumps({"command": command, "description": about})
    call: ToolCall = {"id": "c", "type": "function", "function": {"name": "Bash", "arguments": arguments}}
    result: Message = {"role": "tool", "content": output, "tool_call_id": "c"}
    if failed:
        result["is_error"] = True
    return Trace(
        trace_id="t",
        source=Source(agent=agent),
        messages=({"role": "assistant", "content": said, "tool_calls": [call]}, result),
        turns=(Turn(start=0, end=2),),
    )


CONFLICT = "Auto-merging a.py\nCONFLICT (content): Merge conflict in a.py\nAutomatic merge failed; fix conflicts"
TRACEBACK = 'Traceback (most recent call last):\n  File "a.py", line 1\nValueError: no'
FAILED_COMMANDS = {
    "flagged": (shell("make", "Exit code 2\nmake: *** [all] Error 1", True), "exit_code"),
    "its traceback, no status recorded": (shell("python a.py", TRACEBACK, agent="swe_agent"), "exit_code"),
    "not found, no status recorded": (shell("foo", "bash: foo: command not found", agent="swe_agent"), "exit_code"),
    "a reader's own error": (shell("cat x", "cat: x: No such file or directory", agent="adp"), "exit_code"),
    "hidden by a pipe": (shell("pytest 2>&1 | tail -3", "=== 1 failed, 3 passed in 0.1s ==="), "silent_failure"),
    "used wrongly": (shell("./scan --fast | head -9", "usage: scan [-h] --dir DIR"), "silent_failure"),
    "used wrongly beside help": (
        shell("./a --help | tail -3; ./b | tail -3", "usage: a [-h]\nb: error: no DIR"),
        "silent_failure",
    ),
    "an edit in a cell of a notebook": (
        shell("edit_file_by_replace('a.py', 'x', 'y')", "[No exact match found in a.py for\n```\nx\n```\n]"),
        "edit_mismatch",
    ),
    "hidden by || true": (shell("npm test || true", "npm ERR! missing script: test"), "silent_failure"),
    "a probe that broke": (shell("grep x nowhere", "Exit code 2\ngrep: nowhere: No such file", True), "exit_code"),
    "a reproduction that broke before": (
        shell("python a.py", "Exit code 1\nModuleNotFoundError: No module named x", True, said="Reproduce the bug."),
        "exit_code",
    ),
    "a merge that has nothing to do with conflicts": (
        shell("git merge nowhere", "Exit code 1\nmerge: nowhere - not something we can merge", True),
        "exit_code",
    ),
    "a failure behind a run that passed": (
        shell("pytest | tail -3; ruff check | tail -3", "== 4 passed in 0.1s ==\nerror: no rule X", False),
        "silent_failure",
    ),
    "test files that did not load beside tests that passed": (
        shell("vitest run | tail", " Test Files  1 failed | 2 passed (3)\n      Tests  9 passed (9)"),
        "silent_failure",
    ),
    "an error behind a program that silences its own": (
        shell("ls x 2>/dev/null; make", "Exit code 2\nmake: *** [all] Error 1", True),
        "exit_code",
    ),
    "a fix that did not help": (
        shell("python reproduce.py", "Exit code 1\n" + TRACEBACK, True, said="See if the reproduction is fixed."),
        "exit_code",
    ),
}


@pytest.mark.parametrize("case", FAILED_COMMANDS)
def test_commands_that_failed(case: str) -> None:
    trace, kind = FAILED_COMMANDS[case]
    assert [site.error_kind for site in find_sites(trace)] == [kind]


def test_what_a_passing_run_printed_is_not_the_error() -> None:
    [site] = find_sites(shell("bun test && bun lint | tail", "error: no database\n 12 pass\n 0 fail\nerror: bad style"))
    assert site.error_message == "error: bad style"


HARMLESS_COMMANDS = {
    "help that was asked for": shell("./scan --help | head -9", "usage: scan [-h] --dir DIR\n\nValidate."),
    "reading a log with a traceback": shell("cat build.log | tail -50", TRACEBACK),
    "reading a source, no status recorded": shell("sed -n 1,9p a.py", TRACEBACK, agent="swe_agent"),
    "searching for errors": shell("grep -rn Error src | head", "a.py:1:ValueError: x", agent="swe_agent"),
    "a search without a match": shell("grep x a.py", "Exit code 1", True),
    "a search at the end of a loop": shell("for f in a b; do grep x $f; done", "Exit code 1\nfound", True),
    "a difference": shell("diff a b", "Exit code 1\n1c1", True),
    "a pull request that does not exist": shell("gh pr view 2>&1", "Exit code 1\nno pull requests found", True),
    "an answer ready for the failure": shell("test -f x || echo missing", "missing", agent="swe_agent"),
    "a closed pipe": shell("find . | head -1", "./a\nfind: write error: Broken pipe", agent="swe_agent"),
    "a wanted failure": shell("python a.py", "Exit code 1\n" + TRACEBACK, True, said="Let me reproduce the bug."),
    "a status that the harness would have told": shell("pytest", "=== 1 failed in 0.1s ==="),
    "a probe that silences its errors": shell(
        "ls src 2>/dev/null; git -C other branch 2>/dev/null", "Exit code 128", True
    ),
    "a merge conflict": shell("git merge main", f"Exit code 1\n{CONFLICT}", True),
    "a rebase conflict behind a pipe": shell("git rebase main 2>&1 | tail -5", CONFLICT),
    "a look at what fails": shell("make test", "Exit code 2\nFAIL", True, said="Let me check the failing output."),
    "a negative check": shell("./app bad.toml", "Exit code 2\nbad", True, said="Verify that a bad file is rejected."),
    "a negative check in the call's own words": shell("./app x", "Exit code 2\nbad", True, about="Should be refused"),
    "a file that was to go": shell("rm a && ls a", "Exit code 1\nls: a: No such file or directory", True),
    "a look whether files are there": shell("ls NOTES.md 2>&1; echo; ls", "ls: NOTES.md: No such file or directory"),
    "errors in the log of a run that passed": shell(
        "bun test 2>&1 | tail -20", "error: no database\n\n 12 pass\n 0 fail\nRan 12 tests"
    ),
    "a test run of which only the beginning is shown": shell(
        "bun run test 2>&1 | head -9", "bun test v1\n\na.test.ts:\nerror: item 3 failed\n(pass) retries"
    ),
    "stopped by hand": shell("npm run dev", "Process exited with code 130", True, agent="codex"),
}


@pytest.mark.parametrize("case", HARMLESS_COMMANDS)
def test_commands_that_did_their_work(case: str) -> None:
    assert find_sites(HARMLESS_COMMANDS[case]) == []


OTHER_AGENTS = [
    ("swe_agent", "OBSERVATION:\nNo replacement was performed, old_str `a` did not appear verbatim", "edit_mismatch"),
    ("openhands", "ERROR:\nNo replacement was performed. Multiple occurrences of old_str `a`", "edit_mismatch"),
    ("openhands", "Invalid `path` parameter: a.py. The path should be an absolute path, starting with", "type_error"),
    ("swe_smith", "The path /x/y.py does not exist. Please provide a valid path.", "file_not_found"),
    ("openhands", "File already exists at: /a.py. Cannot overwrite files using command `create`.", "edit_precondition"),
    ("codex", "unsupported call: shel", "tool_not_found"),
    ("codex", "failed to parse function arguments: missing field `cmd` at line 1", "type_error"),
    ("codex", "failed to parse function arguments: expected `,` at line 1", "json_decode"),
    ("codex", "apply_patch verification failed: Failed to find expected lines in a.py", "edit_mismatch"),
    ("swe_agent", "Your proposed edit has introduced new syntax error(s).", "runtime_error"),
    ("swe_agent", "Your last output did not use any tool calls!", "no_action"),
    ("swe_agent", "Your output was not formatted correctly.", "json_decode"),
    ("code_task", "Your response did not hold a code block: write the definition between ``` marks.", "no_action"),
    ("code_task", "Your response did not define `f`: the code block must hold the whole definition.", "no_action"),
    ("code_task", "Your response could not be parsed: invalid syntax in line 1 of the code block: `(`", "no_action"),
    ("code_task", "Your response could not be parsed: the call is no JSON.", "json_decode"),
    ("openenv", "Your response did not call a tool.", "no_action"),
    ("mini_swe_agent", "No tool calls found in the response.", "no_action"),
    ("mini_swe_agent", "Please always provide EXACTLY ONE action in triple backticks, found 0 actions.", "no_action"),
    ("mini_swe_agent", "Please always provide EXACTLY ONE action in triple backticks, found 2 actions.", "json_decode"),
]  # fmt: skip


@pytest.mark.parametrize(("agent", "text", "kind"), OTHER_AGENTS)
def test_tools_that_refuse_without_a_flag(agent: str, text: str, kind: str) -> None:
    [site] = find_sites(trace_of([Did(text, flagged=False)], agent=agent))
    assert site.error_kind == kind


def test_an_edit_that_aider_made_beside_one_that_failed_is_no_error() -> None:
    told = "The LLM did not conform to the edit format.\n# The other 1 SEARCH/REPLACE block were applied successfully."
    [site] = find_sites(trace_of([Did(told), Did(told, flagged=False)], agent="aider"))
    assert (site.error_kind, site.call_id) == ("edit_mismatch", "0.0")


@pytest.mark.parametrize(
    ("output", "fault"),
    [
        ("fatal: Could not resolve host: github.com", "environment"),
        ("npm error network request failed, getaddrinfo ENOTFOUND registry.npmjs.org", "environment"),
        ("  yield\n" * 400 + "ReadTimeoutError: HTTPSConnectionPool(port=443): Read timed out.", "environment"),
        ("ModuleNotFoundError: No module named 'numpy'", "policy"),
        ("FileNotFoundError: [Errno 2] No such file or directory: 'a.csv'", "policy"),
    ],
)
def test_a_broken_world_is_the_environments_fault_and_a_missing_module_is_not(output: str, fault: str) -> None:
    [site] = find_sites(shell("./run", f"Exit code 1\n{output}", True))
    assert (site.error_kind, site.fault) == ("exit_code", fault)


def after(*said: str) -> Trace:
    messages: list[Message] = [{"role": "assistant", "content": "done"}]
    messages += [{"role": "user", "content": text} for text in said]
    return Trace(
        trace_id="t", source=Source(agent="claude_code"), messages=tuple(messages), turns=(Turn(start=0, end=1),)
    )


STEERED = {
    "interruption": after("[Request interrupted by user]", "use the other file"),
    "communication": after("Please be more concise."),
    "style": after("don't add comments to the code"),
    "effort": after("You didn't run the tests"),
}


@pytest.mark.parametrize("kind", STEERED)
def test_what_the_user_says_about_a_turn(kind: str) -> None:
    [site] = find_sites(STEERED[kind])
    assert site.error_kind == kind
    assert site.error_message.startswith("The user said:\n")
    assert (site.fault == "user") == (kind == "interruption")
    assert (site.confidence < 1) == (kind != "interruption")


@pytest.mark.parametrize(
    "said", [["[Request interrupted by user]"], ["[Request interrupted by user]", "/clear"], ["ok"]]
)
def test_an_interruption_without_a_correction_is_none(said: list[str]) -> None:
    assert find_sites(after(*said)) == []


class TestGoldSet:
    def test_the_detectors_reach_the_bar(self) -> None:
        pooled = score()["pooled"]
        assert pooled["precision"]["lo"] >= 0.9
        assert pooled["recall"]["lo"] >= 0.9

    def test_it_is_as_large_and_as_often_read_as_promised(self) -> None:
        result = score()
        assert result["items"] >= 300 and result["formats"] >= 5
        assert result["kappa"]["n"] >= result["items"] / 2
        assert result["kappa"]["kappa"] > 0.8

    def test_a_detector_that_finds_nothing_scores_nothing(self) -> None:
        nothing = score(detector=lambda trace: [])
        assert nothing["pooled"]["recall"]["mean"] == 0
        assert nothing["pooled"]["precision"]["n"] == 0
