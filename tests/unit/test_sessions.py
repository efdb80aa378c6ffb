"""What of a session is measured, and how a turn that is written again is judged."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from composer_replication.cli.sessions import evaluate_sessions
from composer_replication.config import Config, EvaluationConfig
from composer_replication.evaluation.session_reading import TimeLeft, choose_turns
from composer_replication.evaluation.sessions import (
    TurnMeasure,
    changes,
    conclusion,
    corrections,
    good_turns,
    what_is_wrong,
)
from composer_replication.records import ErrorSite, Source, Trace, Turn
from composer_replication.runs import Run
from composer_replication.stages.held_out import held_out_ids
from composer_replication.stages.sessions import what_fits

TOOLS = (
    {"type": "function", "function": {"name": "read", "parameters": {
        "type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}}},
    {"type": "function", "function": {"name": "list", "parameters": {"type": "object"}}},
)  # fmt: skip

READ, WRITTEN = False, True


def said(text="", *calls):
    message = {"role": "assistant", "content": text}
    functions = [{"name": name, "arguments": arguments} for name, arguments in calls]
    if functions:
        message["tool_calls"] = [{"id": str(n), "type": "function", "function": f} for n, f in enumerate(functions)]
    return message


def read(path):
    return said("", ("read", json.dumps({"path": path})))


def session(opening, *actions):
    messages = [{"role": "user", "content": opening}]
    turns = []
    for action in actions:
        turns.append(Turn(start=len(messages), end=len(messages) + 2))
        messages += [action, {"role": "tool", "content": "…"}]
    return Trace(
        trace_id=f"{opening}-{len(actions)}",
        source=Source(agent="x"),
        messages=tuple(messages),
        turns=tuple(turns),
        tools=TOOLS,
    )


def error(trace, turn, tool="read", **fields):
    return ErrorSite(
        site_id=f"{trace.trace_id}:{turn}", trace_id=trace.trace_id, turn=turn, state_id="", error_kind="type_error",
        error_message="no", tool_name=tool, detector="x", **fields,
    )  # fmt: skip


def test_a_correction_is_the_next_other_call_of_the_tool_that_went_well():
    trace = session("a", read("x"), read("y"), said("", ("list", "{}")), read("z"), read("w"))
    sites = [error(trace, 0), error(trace, 1)]
    found = [(one.turn, one.better, one.worse) for one in corrections([trace], sites)]
    assert found == [(0, read("z"), read("x")), (1, read("z"), read("y"))]
    assert [turn for _, turn in good_turns([trace], sites)] == [2, 3, 4]


@pytest.mark.parametrize(
    ("later", "fields"),
    [
        ([read("x")], {}),
        ([said("", ("list", "{}"))] * 3 + [read("y")], {}),
        ([read("y")], {"fault": "user"}),
    ],
    ids=["the same call again", "too late", "not the actor's fault"],
)
def test_no_correction(later, fields):
    trace = session("a", read("x"), *later)
    assert not list(corrections([trace], [error(trace, 0, **fields)]))


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        (read("y"), None),
        (said("I give up"), "no call"),
        (said("", ("fetch", "{}")), "unknown tool"),
        (said("", ("read", '{"path": 3}')), "against the schema"),
        (said("", ("read", "{}")), "against the schema"),
        (said("", ("read", '{"path": "y"')), "not JSON"),
        (read("x"), "the same call again"),
        (said("", ("read", '{ "path" : "x" }')), "the same call again"),
        (said("", ("list", "{}"), ("read", "{}")), "against the schema"),
    ],
)
def test_a_turn_is_judged_by_the_schemas(written, reason):
    assert what_is_wrong(written, read("x"), None, TOOLS) == reason


def test_only_the_call_that_failed_must_not_come_again():
    both = said("", ("read", '{"path": "x"}'), ("list", "{}"))
    mended = said("", ("read", '{"path": "y"}'), ("list", "{}"))
    assert what_is_wrong(mended, both, "0", TOOLS) is None
    assert what_is_wrong(both, both, "0", TOOLS) == "the same call again"
    assert what_is_wrong(mended, both, None, TOOLS) == "the same call again"


@pytest.mark.parametrize(
    "parameters",
    [None, {"$ref": "#/nowhere"}, {"$ref": "http://127.0.0.1:9/schema.json"}, {"type": "none of these"}],
)
def test_a_schema_that_cannot_be_read_forbids_nothing_and_fetches_nothing(parameters, monkeypatch):
    monkeypatch.setattr("urllib.request.urlopen", lambda *_, **__: pytest.fail("something was fetched"))
    tools = [{"type": "function", "function": {"name": "read", "parameters": parameters}}]
    assert what_is_wrong(read("y"), read("x"), "0", tools) is None


def test_several_pairs_at_a_state_count_as_their_mean():
    def measured(phase, value, trace):
        return TurnMeasure(measure="preferred", trace_id=trace, turn=0, phase=phase, value=value)

    found = [measured(phase, value, trace) for trace in "ab" for phase in ("before", "after") for value in (1.0, 5.0)]
    assert changes(found)[0][0].before.mean == 3.0


def test_a_session_that_continues_another_stays_on_its_side(tmp_path):
    run = Run.start(tmp_path / "run", Config(evaluation=EvaluationConfig(held_out_sessions=0.5)))
    sessions = [session(str(number), *[read("x")] * length) for number in range(20) for length in (1, 2)]
    known = held_out_ids(run, sessions)
    assert 8 <= len(known) <= 32
    assert {trace_id.split("-")[0] + "-1" for trace_id in known} <= known
    # More sessions move none of the earlier ones.
    assert held_out_ids(run, [*sessions, *(session(f"new {n}", read("x")) for n in range(30))]) >= known
    assert not held_out_ids(run, sessions[:8])


def test_sessions_are_what_is_independent():
    def measured(phase, value, trace, turn):
        return TurnMeasure(measure="rewritten", trace_id=trace, turn=turn, phase=phase, value=value)

    many = [measured(phase, float(phase == "before"), "a", turn) for turn in range(50) for phase in ("before", "after")]
    few = [measured(phase, 1.0, "b", 0) for phase in ("before", "after")]
    assert "1 held-out session" in changes(many)[1]["rewritten"]
    (row,), _ = changes([*many, *few])
    assert (row.turns, row.difference.n) == (51, 2)
    assert row.difference.mean == -0.5
    assert row.difference.hi > 1, "two sessions tell next to nothing, whatever their length"


def row_of(measure, *differences):
    found = [
        TurnMeasure(measure=measure, trace_id=str(number), turn=0, phase=phase, value=value)
        for number, difference in enumerate(differences)
        for phase, value in (("before", 0.0), ("after", difference))
    ]
    return changes(found)[0][0]


@pytest.mark.parametrize(
    ("measure", "differences", "verdict"),
    [
        ("good turns", (0.2, 0.3, 0.2, 0.3, 0.2), "better"),
        ("good turns", (-0.2, -0.3, -0.2, -0.3, -0.2), "worse"),
        ("rewritten", (-1, -1, -1, -1, -0.9), "better"),
        ("rewritten", (1, 1, 1, 1, 0.9), "worse"),
        ("corrections", (0.2, -0.3, 0.2, -0.3, 0.2), "not clear"),
        ("good turns", (0.2, 0.2001, 0.2, 0.2), "too few to tell"),
        ("good turns", (0.0,) * 5, "all alike"),
        ("good turns", (0.0,) * 4, "too few to tell"),
    ],
)
def test_the_verdict_goes_by_the_interval_and_few_sessions_have_none(measure, differences, verdict):
    row = row_of(measure, *differences)
    assert row.verdict == conclusion([row]) == verdict


def test_measures_that_disagree_conclude_nothing():
    up, down = row_of("good turns", 1, 2, 1, 2, 1), row_of("corrections", -1, -2, -1, -2, -1)
    few, flat = row_of("rewritten", 0, 0), row_of("preferred", 1, -1, 1, -1, 1)
    assert conclusion([up, down]) == "not clear" and conclusion([up, flat, few]) == "better"
    assert conclusion([down, few]) == "worse" and conclusion([]) == "too few to tell"
    alike = row_of("rewritten", 0, 0, 0, 0, 0)
    assert conclusion([alike, few]) == "all alike" and conclusion([alike, flat]) == "not clear"


def test_too_few_sessions_get_no_interval(tmp_path, monkeypatch, capsys):
    run = Run.start(tmp_path / "run", Config())
    found = [
        TurnMeasure(measure="good turns", trace_id=trace, turn=turn, phase=phase, value=-1.0)
        for trace, turn in (("a", 0), ("a", 1), ("b", 0))
        for phase in ("before", "after")
    ]
    run.stage("sessions").finish(found, {"sessions": 2, "turns": 3, "skipped": {}, "tools_not_shown": 7}, [], 0.0)
    monkeypatch.setattr("composer_replication.cli.sessions.run_stage", lambda *_: None)
    evaluate_sessions(run, as_json=False)
    told = " ".join(capsys.readouterr().out.split())
    assert "Doubtful: the chat template of the model does not write tools: at 7 states" in told
    assert "[+0" not in told and "[0" not in told
    assert "Conclusion: too few to tell" in told and "good turns too few to tell (3 turns, 2 sessions)" in told
    assert told.endswith(f"every turn lies in {run.path / 'sessions'}.")
    evaluate_sessions(run, as_json=True)
    (row,) = json.loads(capsys.readouterr().out)["changes"]
    assert row["difference"] == {"mean": 0.0, "lo": None, "hi": None, "n": 2} and row["verdict"] == "too few to tell"


def test_turns_that_are_written_come_last_and_the_others_take_turns():
    traces = [session(str(number), read("x"), read("y"), *[said("done")] * 9) for number in range(4)]
    turns = choose_turns(traces, [error(trace, 0) for trace in traces], [], 16)
    assert Counter(turn.measure for turn in turns) == {"rewritten": 4, "corrections": 4, "good turns": 16}
    assert [turn.measure for turn in turns[-4:]] == ["rewritten"] * 4
    assert {turn.measure for turn in turns[:3]} == {turn.measure for turn in turns[-9:-4]}


def test_the_time_left_weighs_each_kind_by_what_is_foreseen():
    left = TimeLeft()
    assert left.left({READ: 1.0}) is None
    left.add(READ, foreseen_s=2.0, took_s=6.0)
    assert left.left({READ: 10.0, WRITTEN: 40.0}) == 3 * 50
    left.add(WRITTEN, foreseen_s=40.0, took_s=20.0)
    assert left.left({READ: 10.0, WRITTEN: 40.0}) == 3 * 10 + 40 / 2


def test_what_fits_is_told_first_and_few_are_warned_of():
    kinds = Counter({"rewritten": 1, "good turns": 2})
    told = what_fits(kinds, Counter({"rewritten": 1, "good turns": 1}), 2048)
    assert "2 of 3 turns fit" in told and told.endswith(": 1 of 1 rewritten, 1 of 2 good turns")
    assert "That is few" in what_fits(kinds, Counter({"good turns": 1}), 2048)
