"""Hints: short, made of what the context holds, never the failed call; what cannot be said is dropped and counted."""

from __future__ import annotations

import json

import pytest

from composer_replication.config import HintsConfig, ToolboxConfig
from composer_replication.environments.toolbox import Call, Episode, make_task, trace_of
from composer_replication.hints import (
    HINT_TEMPLATES,
    CompositeHintGenerator,
    RawErrorHintGenerator,
    RoutingHintGenerator,
    TemplateHintGenerator,
    default_composite,
    dispatch,
    is_tool_runtime_kind,
    register,
    write_hints,
)
from composer_replication.hints.templates import LEAK_LEVELS
from composer_replication.hints.write import count_tokens
from composer_replication.records import ERROR_KINDS, ErrorSite, Message, Source, Trace, Turn
from composer_replication.sites import find_sites

TEMPLATE_KINDS = ("tool_not_found", "json_decode", "type_error", "runtime_error", "repeated_failure")
JUDGED = {"style", "communication", "effort"}
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
    before = dict(HINT_TEMPLATES)
    yield
    HINT_TEMPLATES.clear()
    HINT_TEMPLATES.update(before)


def test_the_five_templates_and_their_leak_levels():
    assert set(HINT_TEMPLATES) == set(LEAK_LEVELS) == set(TEMPLATE_KINDS)


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


@pytest.mark.parametrize("kind", TEMPLATE_KINDS)
def test_a_template_has_something_to_say_without_any_context(kind):
    assert dispatch(kind).startswith("Reminder: ")
    assert hint_for(site(kind, error_message="", tool_name=None, tool_schema=None, available_tools=())).text


def test_a_type_error_with_a_union_type():
    hint_for(site("type_error", tool_schema={"properties": {"key": {"type": ["string", "null"]}}}))


def test_many_tools_are_cut_to_the_ones_spelt_most_alike():
    names = [f"do_{word}" for word in "abcdefghijklmnop"] + ["set_kee"]
    text = dispatch("tool_not_found", {"available_tools": names, "tool_name": "set_key"})
    assert "set_kee" in text
    assert text.count(",") == 7


def test_hints_of_real_toolbox_errors_fit_the_cap_and_differ_from_their_sham():
    traces, sites = {}, []
    for index in range(60):
        task = make_task(ToolboxConfig(), "train", index)
        listing = task.listings[0]
        episode = Episode(task)
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


def test_shams_of_a_kind_come_from_several_other_templates():
    shams = {hint_for(site("json_decode", site_id=f"s{i}")).sham_text for i in range(40)}
    assert len(shams) > 2
    assert dispatch("json_decode") not in shams


@pytest.mark.parametrize(
    ("kind", "fact"), [("tool_not_found", "get_key"), ("type_error", "it broke"), ("json_decode", "it broke")]
)
def test_a_sham_holds_no_facts_about_the_error(kind, fact):
    shams = [hint_for(site(kind, site_id=f"s{i}", tool_name="fetch_key")).sham_text for i in range(40)]
    assert not [sham for sham in shams if fact in sham]


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
@pytest.mark.parametrize("kind", ["exit_code", "runtime_error"])
def test_a_hint_that_quotes_the_failed_call_is_not_used(content, arguments, message, kind):
    quoting = site(kind, error_message=message)
    assert hint_for(quoting, one_turn(content, arguments)) == "quotes_the_call"
    assert hint_for(quoting, one_turn("other", '{"command":"ls"}')).text


def test_a_quoted_call_is_found_across_line_breaks():
    text = "cd src\n  make all"
    hint = hint_for(site("exit_code", error_message=f"failed: {text}"), one_turn(text, "{}"))
    assert hint == "quotes_the_call"


def test_sites_that_are_not_the_policys_fault_are_dropped_and_counted():
    sites = [
        site("permission", fault="harness"), site("user_rejection", fault="user"), site("json_decode"),
        site("timeout", fault="environment"), site("interruption", fault="user"),
    ]  # fmt: skip
    hints, dropped = write_hints({"t": one_turn()}, sites, CAP)
    assert len(hints) == 1
    assert dropped == {"fault_harness": 1, "fault_user": 2, "fault_environment": 1}


@pytest.mark.parametrize("kind", sorted(JUDGED))
def test_kinds_for_the_judge_have_no_hint_yet(kind):
    assert hint_for(site(kind)) == "no_layer"


@pytest.mark.parametrize("kind", [kind for kind in ERROR_KINDS if kind not in {*JUDGED, *TEMPLATE_KINDS}])
def test_other_kinds_use_the_raw_error(kind):
    hint = hint_for(site(kind, error_message="  file\n missing "))
    assert hint.layer == "raw_error"
    assert "file missing" in hint.text


def test_a_raw_error_is_cut_and_an_empty_one_says_nothing():
    generator = RawErrorHintGenerator(max_chars=10)
    assert "0123456789" in generator.generate("exit_code", {"error_message": "0123456789abc"})
    assert "abc" not in generator.generate("exit_code", {"error_message": "0123456789abc"})
    assert generator.generate("exit_code", {"error_message": " \n"}) is None
    assert generator.generate("exit_code", {}) is None


@pytest.mark.parametrize("kind", ERROR_KINDS)
def test_routing_of_the_known_kinds(kind):
    assert is_tool_runtime_kind(kind) == (kind not in JUDGED)
    assert is_tool_runtime_kind(kind.upper()) == (kind not in JUDGED)


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
    class Says:
        def __init__(self, text):
            self.text = text

        def generate(self, error_kind, error_meta):
            return self.text

    assert CompositeHintGenerator([Says(None), Says("a"), Says("b")]).generate("x", {}) == "a"
    assert CompositeHintGenerator([Says(None)]).generate("x", {}) is None
    assert CompositeHintGenerator([]).generate("x", {}) is None


def test_the_default_composite_as_a_collator_hook():
    hook = default_composite().as_collator_hook()
    assert hook("json_decode", {}) == dispatch("json_decode")
    assert "boom" in hook("exit_code", {"error_message": "boom"})
    assert hook("style", {"error_message": "boom"}) is None
    assert default_composite(enable_raw_error=False).generate("exit_code", {"error_message": "boom"}) is None


def test_a_long_argument_value_counts_as_a_quote():
    command = "python -m pytest tests/unit/test_things.py"
    trace = one_turn("", json.dumps({"command": command}))
    assert hint_for(site("exit_code", error_message=f"usage: {command} failed"), trace) == "quotes_the_call"
