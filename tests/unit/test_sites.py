"""Error sites: what each failure text means, whose fault it is, and when it is a repetition."""

from __future__ import annotations

import json
from typing import NamedTuple

import pytest

from composer_replication.config import ToolboxConfig
from composer_replication.environments.toolbox import Call, Episode, ToolboxTask, make_task
from composer_replication.environments.toolbox import trace_of as episode_trace
from composer_replication.records import ErrorSite, Message, Source, ToolCall, Trace, Turn, content_id
from composer_replication.sites import find_sites

REJECTED = "The user doesn't want to proceed with this tool use. The tool use was rejected."
TOOLS = (
    {"type": "function", "function": {"name": "get_key", "parameters": {"properties": {"key": {"type": "string"}}}}},
)


class Did(NamedTuple):
    """One call and its result; `error` None is a success."""

    error: str | None = None
    name: str = "Tool"
    arguments: str = "{}"


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
            if did.error:
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
    ("[Request interrupted by user for tool use]", "interruption", "user"),
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
    [site] = find_sites(trace_of([Did("x" * 400 + " exceeds maximum allowed tokens")]))
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
            error_message=("Exit code 1 " + "y" * 500)[:400],
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
            episode = Episode(task)
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
