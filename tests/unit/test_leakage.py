"""What a hint gives away: never the failed call, never the right one by default; the sham and the sibling beside it."""

from __future__ import annotations

import json

import pytest

from composer_replication.config import HintsConfig, ToolboxConfig
from composer_replication.environments.toolbox import Call, ToolboxEpisode, make_task, next_call, trace_of
from composer_replication.hints import HINT_TEMPLATES, SiblingHintGenerator, dispatch, write_hints
from composer_replication.hints.leakage import correction_of, gives_the_answer, leak_level, quotes_the_call
from composer_replication.hints.sham import sham_of
from composer_replication.hints.wording import count_tokens
from composer_replication.records import ERROR_KINDS, ErrorSite, Message, Source, Trace, Turn
from composer_replication.sites import find_sites

from .test_hints import Says

CAP = HintsConfig().max_tokens
TOOLBOX_KINDS = ("tool_not_found", "json_decode", "type_error", "runtime_error", "repeated_failure")


def session(*calls, asked="mend the parser"):
    """A session of one call per turn: (tool, arguments, result, failed)."""
    messages: list[Message] = [{"role": "user", "content": asked}]
    turns = []
    for number, (tool, arguments, result, failed) in enumerate(calls):
        function = {"name": tool, "arguments": json.dumps(arguments)}
        start = len(messages)
        messages.append({"role": "assistant", "content": "", "tool_calls": [
            {"id": f"c{number}", "type": "function", "function": function}]})  # fmt: skip
        messages.append({"role": "tool", "content": result, "tool_call_id": f"c{number}", "is_error": failed})
        turns.append(Turn(start=start, end=len(messages)))
    return Trace(trace_id="t", source=Source(agent="claude_code"), messages=tuple(messages), turns=tuple(turns))


def site(kind="exit_code", **fields) -> ErrorSite:
    values = {
        "site_id": "s", "trace_id": "t", "turn": 0, "state_id": "st", "error_kind": kind, "error_message": "it broke",
        "tool_name": "Bash", "detector": "d",
    }  # fmt: skip
    return ErrorSite(**(values | fields))


BAD = ("Bash", {"command": "make checks"}, "Exit code 4", True)
GOOD = ("Bash", {"command": "python -m pytest tests/unit -q --maxfail=1"}, "ok", False)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("Run python -m pytest tests/unit -q --maxfail=1 instead.", True),
        ("Use  python -m\nPYTEST tests/unit.", True),
        ("Pass -q --maxfail=1 to it.", True),
        ("Pass -q to it, and give python a try.", False),
        ("Run the unit tests only.", False),
        ("", False),
    ],
)
def test_a_stretch_of_the_right_call_is_the_answer(text, answer):
    trace = session(BAD, GOOD)
    assert gives_the_answer(text, trace, site()) == answer
    assert leak_level(text, trace, site(), "L0") == ("L2" if answer else "L0")


@pytest.mark.parametrize(
    ("arguments", "text", "answer"),
    [
        ({"offset": 4711}, "Start at 4711.", True),
        ({"offset": 47}, "Start at 47.", False),
        ({"path": "a.py"}, "Look into a.py first.", True),
        ({"path": "a.py"}, "Look into aa.py first.", False),
        ({"path": "main"}, "Look at the main part.", False),
        ({"mode": True}, "True is needed.", False),
        ({"edits": [{"old": "tokenize_line"}]}, "Mind tokenize_line there.", True),
        ({"new": "call(x); }); }); other"}, "End it with ); }); }); there.", False),
        ({"name": "tokenizer"}, "Mind the Tokenizer there.", True),
    ],
)
def test_short_values_count_when_they_are_distinctive(arguments, text, answer):
    trace = session(BAD, ("Bash", arguments, "ok", False))
    assert gives_the_answer(text, trace, site()) == answer


@pytest.mark.parametrize(
    "trace",
    [
        session(BAD, GOOD, asked="please run python -m pytest tests/unit -q --maxfail=1"),
        session(GOOD, BAD, GOOD),
        session(("Bash", GOOD[1], "Exit code 4", True), GOOD),
    ],
    ids=["the user said it", "it was done before", "the actor wrote it"],
)
def test_what_the_actor_had_seen_is_a_fact(trace):
    turn = len(trace.turns) - 2
    assert not gives_the_answer("Run python -m pytest tests/unit -q --maxfail=1", trace, site(turn=turn))


def test_what_the_error_says_is_a_fact():
    hinted = site(error_message="did you mean python -m pytest tests/unit -q --maxfail=1?")
    assert not gives_the_answer("Run python -m pytest tests/unit -q", session(BAD, GOOD), hinted)
    assert gives_the_answer("Run python -m pytest tests/unit -q", session(BAD, GOOD), site())


def test_what_is_only_said_later_is_no_fact():
    later = session(BAD, ("Read", {"path": "x"}, "python -m pytest tests/unit -q", False), GOOD)
    assert gives_the_answer("Run python -m pytest tests/unit -q", later, site())


def test_the_correction_is_the_next_success_with_the_same_tool():
    read = ("Read", {"path": "notes.md"}, "text", False)
    trace = session(BAD, BAD, read, GOOD, ("Bash", {"command": "ls"}, "", False))
    assert json.loads(correction_of(trace, site())["function"]["arguments"]) == GOOD[1]
    assert correction_of(trace, site("tool_not_found"))["function"]["name"] == "Read"
    assert correction_of(session(BAD, BAD, read), site()) is None
    assert correction_of(trace, site(turn=4)) is None


def test_a_hint_with_the_answer_is_dropped_unless_it_is_allowed():
    trace, told = session(BAD, GOOD), Says("Reminder: python -m pytest tests/unit -q works.")
    hints, dropped = write_hints({"t": trace}, [site("style")], CAP, judge=told)
    assert [hint.layer for hint in hints] == ["template"]
    assert not dropped
    [allowed] = write_hints({"t": trace}, [site("style")], CAP, judge=told, max_leak_level="L2").hints
    assert (allowed.layer, allowed.leak_level) == ("judge", "L2")
    unknown = site("style").model_copy(update={"error_kind": "mood"})
    assert write_hints({"t": trace}, [unknown], CAP, judge=told).dropped == {"gives_the_answer": 1}


@pytest.mark.parametrize(
    ("text", "quotes"),
    [
        ("do not call make\n checks now", False), ('no {"command": "make checks"}', True), ("python is missing", False),
        ("do not run python\n -m  pytest now", True), ("python -m", False),
    ],
)  # fmt: skip
def test_quotes_of_the_failed_call(text, quotes):
    failed = session(BAD, ("Bash", {"command": "python -m pytest"}, "Exit code 1", True))
    assert any(quotes_the_call(text, failed, turn) for turn in (0, 1)) == quotes


def shams(kind, tokens, **fields):
    return {sham_of(site(kind, site_id=f"s{number}", **fields), tokens) for number in range(40)}


@pytest.mark.parametrize("kind", ERROR_KINDS)
@pytest.mark.parametrize("tokens", [9, 12, 22, 31, 48, 96])
def test_a_sham_is_about_as_long_as_the_hint(kind, tokens):
    for sham in shams(kind, tokens):
        assert abs(count_tokens(sham) - tokens) <= max(2, tokens // 10), sham
        assert sham.startswith("Reminder: ")
        assert sham.count("Reminder") == 1


@pytest.mark.parametrize("kind", HINT_TEMPLATES)
def test_a_sham_says_nothing_of_its_own_kind(kind):
    own = dispatch(kind).removeprefix("Reminder: ").split(". ")[0].removesuffix(".")
    assert not [sham for sham in shams(kind, 60) if own in sham]
    assert not [sham for sham in shams("repeated_failure", 60, secondary_kind=kind) if own in sham]


def test_a_sham_of_an_edit_says_nothing_that_would_help_another_edit():
    said = " ".join(shams("edit_mismatch", 90) | shams("edit_precondition", 90) | shams("file_not_found", 90))
    assert "must be read in this session" not in said
    assert "search for the file by name" not in said
    assert "must be read in this session" in " ".join(shams("exit_code", 90))


def test_a_sham_of_a_turn_without_an_action_says_nothing_of_how_calls_are_written():
    assert "one JSON object" not in " ".join(shams("no_action", 90))


@pytest.mark.parametrize("kind", sorted(set(HINT_TEMPLATES) - {"exit_code", "repeated_failure"}))
def test_a_sham_does_not_foretell_that_the_step_fails(kind):
    said = " ".join(shams(kind, 60) | shams("repeated_failure", 60, secondary_kind=kind))
    assert "command of this step fails" not in said
    assert "that call has failed before" not in said


@pytest.mark.parametrize("kind", ["type_error", "tool_not_found", "repeated_failure"])
def test_a_sham_of_a_session_says_nothing_twice(kind):
    for sham in shams(kind, 48):
        parts = [part for end in sham.removeprefix("Reminder: ").split(". ") for part in end.strip(".").split(", and ")]
        assert len(parts) == len(set(parts)), sham


def test_a_sham_of_a_session_has_no_sentence_without_the_one_it_leans_on():
    for sham in shams("type_error", 40) | shams("exit_code", 24) | shams("edit_mismatch", 30):
        assert ("Take a way that is" in sham) <= ("not every action is allowed" in sham)
        assert ("Do what they ask for" in sham) <= ("hooks check the steps" in sham)
        assert ("Read the output before" in sham) <= ("can end well and still have failed" in sham)


def test_shams_differ_between_sites_and_not_between_calls():
    assert len(shams("json_decode", 22)) > 2
    assert shams("json_decode", 22) == shams("json_decode", 22)


def test_a_sham_holds_no_facts_of_its_site():
    facts = {"tool_name": "fetch_key", "available_tools": ("get_key", "set_key"), "error_message": "no key zz9"}
    assert shams("tool_not_found", 30, **facts) == shams("tool_not_found", 30)


def test_the_embedded_model_can_read_the_shams_of_its_own_errors(tiny_tokens):
    tokenizer = tiny_tokens.tokenizer
    for kind in TOOLBOX_KINDS:
        for sham in shams(kind, 22, detector=f"toolbox/{kind}"):
            assert tokenizer.unk_token_id not in tokenizer(sham)["input_ids"], sham


def rollouts(*plans):
    """Attempts at one toolbox task; each plan lists calls that are right (None) or wrong (a tool name)."""
    task = next(task for index in range(200) if len((task := make_task(ToolboxConfig(), "train", index)).plan) == 2)
    traces = []
    for sample, plan in enumerate(plans):
        episode = ToolboxEpisode(task)
        for name in plan:
            right = next_call(episode)
            episode.step(right.render() if name is None else Call(name, right.arguments).render())
        traces.append(trace_of(episode, "tiny", sample))
    return traces, task


def sibling_hint(traces, show_call, allowed="L2"):
    known = {trace.trace_id: trace for trace in traces}
    error_site = find_sites(traces[0])[0]
    sibling = SiblingHintGenerator(traces, show_call=show_call)
    return write_hints(known, [error_site], CAP, sibling=sibling, max_leak_level=allowed)


def test_a_sibling_that_succeeded_tells_that_it_can_be_done():
    traces, task = rollouts(["nope"], [None, None])
    [hint] = sibling_hint(traces, show_call=False, allowed="L1").hints
    assert (hint.layer, hint.leak_level) == ("sibling", "L1")
    assert "2 good calls" in hint.text
    assert "does not use this tool" in hint.text
    assert not [entry.name for entry in task.listings if entry.name in hint.text]
    assert abs(count_tokens(hint.sham_text) - hint.tokens) <= max(2, hint.tokens // 10)


def test_a_siblings_call_is_the_answer_and_needs_to_be_allowed():
    traces, _ = rollouts([None, "nope"], [None, None])
    [hint] = sibling_hint(traces, show_call=True).hints
    second = json.loads(traces[1].messages[traces[1].turns[1].start]["tool_calls"][0]["function"]["arguments"])
    assert (hint.layer, hint.leak_level) == ("sibling", "L2")
    assert all(str(value) in hint.text for value in second.values())
    # The failed call had the right arguments under a wrong name; only a call that failed as it stands is not shown.
    assert quotes_the_call(hint.text, traces[0], 1)
    [refused] = sibling_hint(traces, show_call=True, allowed="L1").hints
    assert refused.layer == "template"


def test_a_sibling_that_did_what_failed_here_has_nothing_to_show():
    traces, _ = rollouts([None, None], [None, None])
    messages = [{**message, "is_error": message["role"] == "tool"} for message in traces[0].messages]
    failed = traces[0].model_copy(update={"messages": tuple(messages), "trace_id": "failed"})
    generator = SiblingHintGenerator([failed, traces[1]], show_call=True)
    assert generator.generate("runtime_error", {"trace_id": "failed", "turn": 0}) is None


def test_only_another_successful_rollout_of_the_task_is_a_sibling():
    traces, _ = rollouts(["nope", None, None], ["nope"])
    assert traces[0].outcome == 1
    assert [hint.layer for hint in sibling_hint(traces, show_call=False).hints] == ["template"]
    alone, _ = rollouts(["nope"], [None, None])
    other = alone[1].model_copy(update={"task_id": "another"})
    assert [hint.layer for hint in sibling_hint([alone[0], other], show_call=False).hints] == ["template"]
    assert SiblingHintGenerator(alone).generate("type_error", {}) is None


def test_siblings_are_not_always_the_shortest_one():
    traces, _ = rollouts(["nope"], [None, None], ["nope", None, None])
    copies = [traces[0].model_copy(update={"trace_id": f"failed{number}"}) for number in range(30)]
    generator = SiblingHintGenerator([*traces, *copies], show_call=False)
    chosen = {generator._sibling(copy, 0).trace_id for copy in copies}
    assert chosen == {traces[1].trace_id, traces[2].trace_id}
