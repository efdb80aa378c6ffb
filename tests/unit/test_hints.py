"""Hints: short, made of what the context holds, never the failed call; what cannot be said is dropped and counted."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from composer_replication.config import HintsConfig, ToolboxConfig
from composer_replication.environments.toolbox import Call, ToolboxEpisode, make_task, trace_of
from composer_replication.hints import (
    HINT_TEMPLATES,
    CompositeHintGenerator,
    RawErrorHintGenerator,
    RoutingHintGenerator,
    TemplateHintGenerator,
    context_of,
    default_composite,
    dispatch,
    is_tool_runtime_kind,
    register,
    write_hints,
)
from composer_replication.hints.templates import LEAK_LEVELS
from composer_replication.hints.wording import clip, count_tokens
from composer_replication.records import ERROR_KINDS, ErrorSite, Message, Source, Trace, Turn
from composer_replication.sites import find_sites

TEMPLATE_KINDS = ("tool_not_found", "json_decode", "type_error", "runtime_error", "repeated_failure")
JUDGED = {"style", "communication", "effort"}
LEFT_TO_THE_JUDGE = {"correction"}
SPEAKING = [kind for kind in ERROR_KINDS if kind not in LEFT_TO_THE_JUDGE]
CAP = HintsConfig().max_tokens
SCHEMA = {"properties": {"key": {"type": "string"}, "value": {"type": "integer"}}}


def one_turn(content: str = "", arguments: str = '{"key":"a","value":"5"}') -> Trace:
    calls = [{"id": "c", "type": "function", "function": {"name": "set_key", "arguments": arguments}}]
    turn: Message = {"role": "assistant", "content": content, "tool_calls": calls}
    return Trace(
        trace_id="t",
        source=Source(agent="claude_code"),
        messages=({"role": "user", "content": "u"}, turn),
        turns=(Turn(start=1, end=2),),
    )


def site(kind: str, **fields) -> ErrorSite:
    values = {
        "site_id": "s", "trace_id": "t", "turn": 0, "state_id": "st", "error_kind": kind, "error_message": "it broke",
        "tool_name": "set_key", "tool_schema": SCHEMA, "available_tools": ("get_key", "set_key"), "detector": "d",
    }  # fmt: skip
    return ErrorSite(**(values | fields))


def hint_for(error_site: ErrorSite, trace: Trace | None = None, cap: int = CAP):
    hints, dropped = write_hints({"t": trace or one_turn()}, [error_site], cap)
    assert len(hints) + dropped.total() == 1
    return hints[0] if hints else next(iter(dropped))


@pytest.fixture
def _templates():
    before, levels = dict(HINT_TEMPLATES), dict(LEAK_LEVELS)
    yield
    for registry, kept in ((HINT_TEMPLATES, before), (LEAK_LEVELS, levels)):
        registry.clear()
        registry.update(kept)


def test_every_kind_has_a_template_and_a_leak_level():
    assert set(HINT_TEMPLATES) == set(LEAK_LEVELS) == set(SPEAKING)


@pytest.mark.parametrize(
    ("kind", "text", "leak"),
    [
        ("tool_not_found", "Reminder: the tools listed here are get_key, set_key.", "L1"),
        ("json_decode", 'Reminder: a call is one JSON object. Close every " and every }.', "L0"),
        ("type_error", "Reminder: set_key takes key:str, value:int.", "L1"),
        ("runtime_error", "Reminder: a tool can refuse a call. It says: it broke. Use what exists.", "L0"),
        ("repeated_failure", "Reminder: that call has failed before. Try another one. Listed: get_key.", "L1"),
    ],
)
def test_each_template_says_what_the_context_holds(kind, text, leak):
    hint = hint_for(site(kind))
    assert (hint.text, hint.leak_level, hint.layer, hint.site_id) == (text, leak, "template", "s")
    assert hint.tokens == count_tokens(text)


@pytest.mark.parametrize("kind", SPEAKING)
def test_a_template_has_something_to_say_without_any_context(kind):
    text = dispatch(kind)
    assert text.startswith("Reminder: ")
    assert text.endswith(".")
    assert count_tokens(text) <= 48
    bare = site(kind, error_message="", tool_name=None, tool_schema=None, available_tools=())
    assert hint_for(bare).text == text


def test_no_two_kinds_say_the_same():
    assert len({dispatch(kind) for kind in SPEAKING}) == len(SPEAKING)


# Error texts as Claude Code, shells, validators and hooks write them.
UNREAD = "File has not been read yet. Read it first before writing to it."
CHANGED = (
    "File has been modified since read, either by the user or by a linter. Read it again before attempting to write it."
)
REJECTED = (
    "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit, the "
    "new_string was NOT written to the file). "
)
SAID = REJECTED + "To tell you how to proceed, the user said:\n"
ZOD = """InputValidationError: [
  {"code": "invalid_type", "expected": "string", "received": "undefined", "path": ["query"], "message": "Required"}
]"""
LINT = (
    "Exit code 1\n[fmt] $ gofmt -w .\n[lint] $ golangci-lint run ./...\n[lint] ERROR task failed\n\n"
    "cli/context_test.go:81:15: string `agent` has 3 occurrences, make it a constant (goconst)\n1 issues:"
)
TRACEBACK = (
    'Exit code 1\nTraceback (most recent call last):\n  File "a.py", line 3, in <module>\n    main()\n'
    "KeyError: 'port'\n"
)


@pytest.mark.parametrize(
    ("kind", "message", "said"),
    [
        ("exit_code", "Exit code 128\nfatal: unrecognized argument: --no-stat",
         "fatal: unrecognized argument: --no-stat."),
        ("exit_code", LINT, "cli/context_test.go:81:15: string `agent` has 3 occurrences"),
        ("exit_code", TRACEBACK, "fails with: KeyError: 'port'."),
        ("exit_code", f"{TRACEBACK}During handling:\nValueError: bad port", "fails with: ValueError: bad port."),
        ("exit_code", "Exit code 1\n[lint] ERROR task failed\nunknown option -x", "fails with: unknown option -x."),
        ("exit_code", "Exit code 1\n\x1b[31mls: docs: No such file or directory\x1b[0m",
         "with: ls: docs: No such file"),
        ("exit_code", "Exit code 127\nzsh: command not found: rg", "not every program is installed"),
        ("exit_code", "Exit code 1", "when it finds nothing"),
        ("exit_code", "Exit code 1\n3: version\n4: version", "Run its parts one at a time"),
        ("edit_mismatch", "String to replace not found in file.\nString: x", "copy them as they stand"),
        ("edit_mismatch", "Found 3 matches of the string to replace, but replace_all is false.", "stands 3 times"),
        ("edit_mismatch", "No changes to make: old_string and new_string are exactly the same.", "must differ"),
        ("edit_precondition", UNREAD, "Read it first"),
        ("edit_precondition", CHANGED, "has changed since it was read"),
        ("file_not_found", "File does not exist.", "search for the file by name"),
        ("file_not_found", "File does not exist. Note: your current working directory is /srv/app.", "is /srv/app"),
        ("file_not_found", "EISDIR: illegal operation on a directory, read", "that path is a folder"),
        ("timeout", "Exit code 143\nCommand timed out after 2m 0s", "time allowed, 2m 0s. Run it in the background"),
        ("permission", "Permission to use Bash with command rm has been denied.", "ask the user"),
        ("permission", "Blocked: sleep 180 followed by: gh api", "waiting with sleep is blocked"),
        ("permission", "EACCES: permission denied, open '/etc/x'", "owner and mode"),
        ("limit", "File content (31k tokens) exceeds maximum allowed tokens (25000).",
         "the limit is 25000. Read one part"),
        ("hook_block", "PreToolUse:Write hook error: [guard.sh]: No writes to main.",
         "step: No writes to main. Settle"),
        ("hook_block", "Pre-commit validation failed:\\n\\n[FORMAT] Code is not formatted.",
         "[FORMAT] Code is not formatted."),
        ("user_rejection", SAID + "wait please, the parser stays", "the user says: wait please, the parser stays"),
        ("user_rejection", SAID + "wait please, let's talk about this", "taken unasked. Say what it would do"),
        ("user_rejection", REJECTED, "ask first"),
        ("interruption", "[Request interrupted by user]\nthe user said:\nUse the old parser.",
         "says: Use the old parser."),
        ("interruption", "[Request interrupted by user for tool use]", "Check that this step serves"),
        ("silent_failure", "collected 3 items\nFAILED test_a.py::test_b - assert 1 == 2",
         "says: FAILED test_a.py::test_b"),
        ("tool_not_found", "Unknown skill: commit", "skills and agents that are listed"),
        ("tool_not_found", "Agent type 'dv' not found. Available agents: Bash, dev, test-doc",
         "are Bash, dev, test-doc."),
        ("json_decode", "InputValidationError: Edit was called with input that could not be parsed as JSON",
         "as \\n and"),
        ("no_action", "Your response could not be parsed: invalid syntax in line 1 of the code block: `def f(:`",
         "one code block"),
        ("no_action", "Your response did not call a tool. Call `submit` when the work is done.",
         "Text alone does nothing"),
        ("runtime_error", "### Error\nTypeError: x is not a function\n    at eval",
         "It says: TypeError: x is not a function."),
        ("runtime_error", "The block was put in, and 2 of 9 visible tests fail.\ntest_a:\n  f(1)\n  NameError: no g",
         "here 2 of 9 visible tests fail: NameError: no g. Write the definition"),
        ("runtime_error", "The block was put in, and the visible tests could not run.\nCommand timed out after 20 s",
         "the visible tests could not run: Command timed out after 20 s. Write the definition"),
    ],
)  # fmt: skip
def test_templates_for_the_errors_of_real_sessions(kind, message, said):
    hint = hint_for(site(kind, error_message=message, available_tools=()))
    assert (hint.layer, hint.leak_level) == ("template", LEAK_LEVELS[kind])
    assert said in hint.text
    assert "\n" not in hint.text
    assert "\x1b" not in hint.text


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("The parameter `value` type is expected as `number` but provided as `string`", "argument value as int. Check"),
        ("The parameter `offset` type is expected as `number` but provided as `string`", "argument offset as number."),
        ("InputValidationError: set_key failed due to the following issue:\nThe required parameter `key` is missing",
         "set_key needs the argument key (str)."),
        ("An unexpected parameter `mode` was provided", "has no argument mode. It takes key, value."),
        (ZOD, "needs the argument query."),
        ('[{"code":"unrecognized_keys","keys":["limit"],"path":[],"message":"Unrecognized key"}]',
         "no argument limit."),
        ('[{"code":"invalid_type","expected":"number","received":"string","path":["value"]}]', "value as int."),
        ("1 validation error for call[f]\nvalue\n  Input should be a valid integer, unable to parse string",
         "value as int."),
        ("1 validation error for call[f]\nkey\n  Field required [type=missing_argument]",
         "needs the argument key (str)"),
        ("f() got an unexpected keyword argument 'mode'", "no argument mode."),
        ("f() missing 1 required positional argument: 'key'", "needs the argument key"),
        ("MCP error -32602: data/value must be integer", "value as int."),
        ("value must be int", "set_key takes key:str, value:int."),
        ("set_key takes key,value", "set_key takes key:str, value:int."),
    ],
)  # fmt: skip
def test_a_type_error_names_the_argument_and_what_is_declared(message, said):
    assert said in hint_for(site("type_error", error_message=message)).text


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"type": "string", "enum": ["text", "json"]}, "as one of text, json."),
        ({"type": "array", "items": {"type": "string"}}, "as array of str."),
        ({"type": ["string", "null"]}, "as any."),
        ({}, "as any."),
    ],
)
def test_a_declared_schema_in_words(schema, said):
    message = "The parameter `mode` type is expected as `object` but provided as `string`"
    assert (
        said in hint_for(site("type_error", error_message=message, tool_schema={"properties": {"mode": schema}})).text
    )


@pytest.mark.parametrize(
    "message", ["[", "[[]]", "[1]", '[{"path": 3}]', "[" * 5000, "[{}]", '[{"code":1,"path":[0]}]']
)
def test_an_odd_validation_message_names_no_argument(message):
    assert "failing_argument" not in context_of(site("type_error", error_message=message))


def test_feedback_is_cut_between_sentences_and_free_of_the_harness():
    first, note = "Keep the old parser.", "\n\nNote: The user's next message may contain a correction."
    assert context_of(site("user_rejection", error_message=SAID + first + note))["feedback"] == first
    long = context_of(site("user_rejection", error_message=SAID + first + " word" * 80))["feedback"]
    assert long == first
    endless = context_of(site("user_rejection", error_message=SAID + "word " * 80))["feedback"]
    assert count_tokens(endless) == 64
    assert endless.endswith("…")
    asked = SAID + "The user wants to clarify these questions. This means they may have more."
    assert "feedback" not in context_of(site("user_rejection", error_message=asked))
    assert "feedback" not in context_of(site("exit_code", error_message=SAID + first))


def test_a_clipped_text_has_the_tokens_it_was_given():
    for cap in (1, 2, 5):
        assert count_tokens(clip("one, two (three) four", cap)) == cap
    assert clip("one two", 2) == "one two"


def test_a_repeated_failure_of_a_session_says_what_the_first_one_would():
    again = site("repeated_failure", secondary_kind="edit_precondition", error_message=UNREAD, available_tools=())
    assert "failed before" in hint_for(again).text
    assert "A file must be read in this session" in hint_for(again).text
    few = {"available_tools": ("get_key", "set_key")}
    assert "A file must be read" in hint_for(again.model_copy(update=few)).text
    # In the toolbox any tool may be the one that is meant.
    in_toolbox = again.model_copy(update=few | {"detector": "toolbox/same_call"})
    assert "Listed: get_key." in hint_for(in_toolbox).text
    assert dispatch("repeated_failure", {"secondary_kind": "repeated_failure"}) == dispatch("repeated_failure")


def test_a_user_who_says_why_is_heard_whoever_is_at_fault():
    feedback = SAID + "No new files, please."
    sites = [
        site("user_rejection", fault="user", error_message=feedback),
        site("interruption", fault="user", error_message="[Request interrupted by user]\nThe user said:\nStop."),
        site("user_rejection", fault="user", error_message=REJECTED),
        site("exit_code", fault="user", error_message=feedback),
        site("hook_block", fault="harness", error_message=feedback),
        site("user_rejection", fault="harness", error_message=feedback),
    ]
    hints, dropped = write_hints({"t": one_turn()}, sites, CAP)
    assert [hint.leak_level for hint in hints] == ["L1", "L1"]
    assert "No new files, please." in hints[0].text
    assert dropped == {"fault_user": 2, "fault_harness": 2}


@pytest.mark.parametrize("said", ["wait please let's talk about this", "Hold on.", "no, lets discuss this first"])
def test_a_user_who_only_wants_to_talk_first_is_not_quoted(said):
    rejected = site("user_rejection", fault="user", error_message=SAID + said)
    assert hint_for(rejected).text == dispatch("user_rejection")
    quoted = hint_for(site("user_rejection", fault="user", error_message=SAID + f"{said.rstrip('.')}. Keep it.")).text
    assert "Keep it." in quoted


def test_feedback_that_quotes_the_call_is_left_out():
    trace = one_turn("", json.dumps({"command": "git push --force origin main"}))
    quoting = site("user_rejection", fault="user", error_message=SAID + "never git push --force origin main")
    assert hint_for(quoting, trace).text == dispatch("user_rejection")


def test_tools_that_were_inferred_from_the_calls_are_no_facts():
    inferred = one_turn().model_copy(update={"tools_inferred": True})
    assert hint_for(site("tool_not_found"), inferred).text == dispatch("tool_not_found")
    assert "get_key" in hint_for(site("tool_not_found")).text


def test_a_type_error_with_a_union_type():
    hint_for(site("type_error", tool_schema={"properties": {"key": {"type": ["string", "null"]}}}))


def test_many_tools_are_cut_to_the_ones_that_could_be_meant():
    names = [f"do_{word}" for word in "abcdefghijklmnop"] + ["Set_Kee"]
    text = dispatch("tool_not_found", {"available_tools": names, "tool_name": "set_key"})
    assert text == "Reminder: call only tools that are listed. Did you mean Set_Kee?"
    far = dispatch("tool_not_found", {"available_tools": names, "tool_name": "qqqqqqqq"})
    assert far.count(",") == 7
    assert "?" not in far


def test_hints_of_real_toolbox_errors_fit_the_cap_and_differ_from_their_sham():
    traces, sites = {}, []
    for index in range(60):
        task = make_task(ToolboxConfig(), "train", index)
        listing = task.listings[0]
        episode = ToolboxEpisode(task)
        unknown, empty = Call("nope", {"x": 1}), Call(listing.name, {})
        wrong = Call(listing.name, {param: 1 if kind == "int" else "zeta" for param, kind in listing.types.items()})
        for turn in (unknown.render(), wrong.render(), (unknown if index % 2 else empty).render(), '{"name":'):
            episode.step(turn)
        trace = trace_of(episode, "tiny", index)
        traces[trace.trace_id] = trace
        sites += find_sites(trace)
    hints, dropped = write_hints(traces, sites, CAP)
    assert not dropped
    assert [hint.site_id for hint in hints] == [site.site_id for site in sites]
    assert len({hint.hint_id for hint in hints}) == len(hints)
    assert {s.error_kind for s in sites} == set(TEMPLATE_KINDS)
    for hint, error_site in zip(hints, sites, strict=True):
        assert hint.tokens == count_tokens(hint.text) <= CAP
        assert hint.layer == "template"
        assert hint.leak_level == LEAK_LEVELS[error_site.error_kind]
        assert hint.sham_text
        assert hint.sham_text != hint.text
        bad = traces[error_site.trace_id].state(error_site.turn)["student_action"]
        assert bad not in hint.text


def test_the_same_site_gets_the_same_hint_and_sham():
    assert hint_for(site("type_error")) == hint_for(site("type_error"))


def test_a_template_that_is_too_long_falls_to_the_raw_error():
    many = tuple(f"tool_{'_'.join('abcdefgh')}.{i}.b.c.d.e.f.g.h" for i in range(8))
    hint = hint_for(site("tool_not_found", available_tools=many, error_message="no tool x"))
    assert (hint.layer, hint.leak_level) == ("raw_error", "L0")
    assert "no tool x" in hint.text
    assert hint.tokens <= CAP


def test_a_hint_that_is_too_long_in_every_layer_is_dropped_and_counted():
    long = site("runtime_error", error_message="a.b" * 200)
    hints, dropped = write_hints({"t": one_turn()}, [long, site("json_decode"), long], CAP)
    assert [hint.text for hint in hints] == [dispatch("json_decode")]
    assert dropped == {"too_long": 2}


def test_a_word_without_end_does_not_fit_the_cap():
    endless = SAID + "x" * 2000
    assert hint_for(site("user_rejection", fault="user", error_message=endless)).layer == "raw_error"


def test_the_cap_is_a_setting_and_inclusive():
    tokens = hint_for(site("json_decode")).tokens
    assert hint_for(site("json_decode", error_message=""), cap=tokens).tokens == tokens
    assert hint_for(site("json_decode", error_message=""), cap=tokens - 1) == "too_long"


@pytest.mark.parametrize(
    ("content", "arguments", "message"),
    [
        ("", '{"command":"rm -r x"}', 'bad input {"command":"rm -r x"} refused'),
        ("I call it now", "{}", "could not read: I call it now"),
    ],
)
def test_a_hint_that_quotes_the_failed_call_is_not_used(content, arguments, message):
    quoting = site("runtime_error", error_message=message)
    assert hint_for(quoting, one_turn(content, arguments)) == "quotes_the_call"
    assert hint_for(quoting, one_turn("other", '{"command":"ls"}')).text


@pytest.mark.parametrize(
    ("content", "arguments", "message"),
    [
        ("", '{"command":"rm -r x"}', 'Exit code 1\nerror: bad input {"command":"rm -r x"} refused'),
        ("cd src\n  make all", "{}", "Exit code 2\nerror: cd src make all"),
        ("", '{"command":"python -m pytest tests/unit"}', "Exit code 2\nusage error: python -m pytest tests/unit"),
    ],
)
def test_an_error_line_that_quotes_the_failed_call_is_left_out(content, arguments, message):
    failing = site("exit_code", error_message=message)
    assert "Run its parts one at a time" in hint_for(failing, one_turn(content, arguments)).text
    assert message.splitlines()[1] in hint_for(failing, one_turn("other", '{"command":"ls"}')).text


def test_sites_that_are_not_the_policys_fault_are_dropped_and_counted():
    sites = [
        site("permission", fault="harness"), site("user_rejection", fault="user"), site("json_decode"),
        site("timeout", fault="environment"), site("interruption", fault="user"),
    ]  # fmt: skip
    hints, dropped = write_hints({"t": one_turn()}, sites, CAP)
    assert len(hints) == 1
    assert dropped == {"fault_harness": 1, "fault_user": 2, "fault_environment": 1}


@pytest.mark.parametrize("kind", sorted(JUDGED))
def test_kinds_for_the_judge_never_use_the_raw_error(kind):
    hint = hint_for(site(kind, error_message="The answer was far too long."))
    assert (hint.layer, hint.text) == ("template", dispatch(kind))


@pytest.mark.usefixtures("_templates")
@pytest.mark.parametrize("kind", sorted(JUDGED))
def test_kinds_for_the_judge_have_no_other_layer(kind):
    register(kind, lambda context: "word " * 200)
    assert hint_for(site(kind)) == "too_long"


@pytest.mark.usefixtures("_templates")
@pytest.mark.parametrize("kind", [kind for kind in SPEAKING if kind not in JUDGED])
def test_other_kinds_fall_to_the_raw_error(kind):
    register(kind, lambda context: "word " * 200)
    hint = hint_for(site(kind, error_message="  file\n \x1b[1mmissing\x1b[0m "))
    assert (hint.layer, hint.leak_level) == ("raw_error", "L0")
    assert "file missing" in hint.text


def test_a_raw_error_is_cut_and_an_empty_one_says_nothing():
    generator = RawErrorHintGenerator(max_chars=10)
    assert "0123456789" in generator.generate("exit_code", {"error_message": "0123456789abc"})
    assert "abc" not in generator.generate("exit_code", {"error_message": "0123456789abc"})
    assert generator.generate("exit_code", {"error_message": " \n"}) is None
    assert generator.generate("exit_code", {}) is None


@pytest.mark.parametrize("kind", ERROR_KINDS)
def test_routing_of_the_known_kinds(kind):
    assert is_tool_runtime_kind(kind) == (kind not in JUDGED | LEFT_TO_THE_JUDGE)
    assert is_tool_runtime_kind(kind.upper()) == (kind not in JUDGED | LEFT_TO_THE_JUDGE)


@pytest.mark.parametrize(
    ("kind", "runtime"),
    [
        ("ImportError", True), ("assertion_failed", True), ("tool_crash", True), ("syntax", True),
        ("verbose_tool_output", False), ("wordy", False), ("format_error", False), ("mood", False), ("", False),
    ],
)  # fmt: skip
def test_routing_of_unknown_kinds_by_their_parts(kind, runtime):
    assert is_tool_runtime_kind(kind) == runtime


def test_a_route_admits_only_its_kinds():
    routed = RoutingHintGenerator(RawErrorHintGenerator(), route=lambda kind: kind == "mood")
    assert routed.generate("mood", {"error_message": "low"})
    assert routed.generate("exit_code", {"error_message": "1"}) is None


@pytest.mark.usefixtures("_templates")
def test_register_adds_and_replaces_templates():
    assert dispatch("mood") is None
    register("mood", lambda context: f"Cheer up: {context['error_kind']}")
    register("json_decode", lambda context: "Mind the braces.")
    assert TemplateHintGenerator().generate("mood", {}) == "Cheer up: mood"
    assert hint_for(site("json_decode")).text == "Mind the braces."


def test_the_composite_asks_its_layers_in_order():
    assert CompositeHintGenerator([Says(None), Says("a"), Says("b")]).generate("x", {}) == "a"
    assert CompositeHintGenerator([Says(None)]).generate("x", {}) is None
    assert CompositeHintGenerator([]).generate("x", {}) is None


class Says:
    leak_level = "L1"

    def __init__(self, text):
        self.text = text

    def generate(self, error_kind, error_meta):
        return self.text


def test_the_default_composite_as_a_collator_hook():
    hook = default_composite().as_collator_hook()
    assert hook("json_decode", {}) == dispatch("json_decode")
    assert hook("style", {"error_message": "boom"}) == dispatch("style")
    assert "boom" in hook("custom_error", {"error_message": "boom"})
    assert default_composite(enable_raw_error=False).generate("custom_error", {"error_message": "boom"}) is None


def test_the_judge_comes_first_only_for_its_own_kinds():
    hook = default_composite(judge=Says("judged")).as_collator_hook()
    assert hook("style", {}) == hook("effort", {}) == "judged"
    assert hook("exit_code", {}) == dispatch("exit_code")
    assert hook("custom_error", {"error_message": "boom"}) != "judged"
    assert hook("mood", {"error_message": "boom"}) == "judged"
    assert default_composite(judge=Says(None)).generate("style", {}) == dispatch("style")
    assert default_composite(sibling=Says("sister")).generate("exit_code", {}) == "sister"


@pytest.mark.parametrize(("allowed", "level"), [("L0", None), ("L1", "L1"), ("L2", "L1")])
def test_the_leak_level_that_is_allowed_is_a_setting(allowed, level):
    hints, dropped = write_hints(
        {"t": one_turn()}, [site("repeated_failure", error_message="")], CAP, max_leak_level=allowed
    )
    assert [hint.leak_level for hint in hints] == ([level] if level else [])
    assert dropped == ({} if level else {"leak_level": 1})


def test_the_counts_of_a_set():
    sites = [site("json_decode"), site("type_error"), site("permission", fault="harness")]
    assert write_hints({"t": one_turn()}, sites, CAP).counts() == {
        "hints": 2, "layers": {"template": 2}, "leak_levels": {"L0": 1, "L1": 1}, "dropped": {"fault_harness": 1},
    }  # fmt: skip


def test_importing_the_hints_is_light():
    code = "import sys, composer_replication.hints; assert not {'httpx2', 'torch', 'numpy'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def documented():
    text = (Path(__file__).parents[2] / "docs" / "hints.md").read_text(encoding="utf-8")
    return re.findall(r"^\| `(\w+)` \| (.*?) \| (.*) \| (L\d) \|$", text, re.MULTILINE)


def test_the_document_shows_every_kind():
    assert [kind for kind, *_ in documented()] == SPEAKING


@pytest.mark.parametrize(("kind", "message", "text", "level"), documented())
def test_the_documented_hints_are_the_ones_that_are_written(kind, message, text, level):
    hint = hint_for(site(kind, error_message=message.replace(" ⏎ ", "\n")))
    assert (hint.text, hint.leak_level) == (f"Reminder: {text}", level)
