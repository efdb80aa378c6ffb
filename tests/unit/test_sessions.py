"""What of a session is measured, and how a turn that is written again is judged."""

from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from composer_replication.cli.sessions import evaluate_sessions
from composer_replication.config import Config, EvaluationConfig, TrainingConfig
from composer_replication.evaluation.session_advice import next_step, told_too_few, what_is_measured
from composer_replication.evaluation.session_drawing import ShownTurn, draw_turns, turns_by_kind
from composer_replication.evaluation.session_reading import TimeLeft
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
from tests.unit.test_next_commands import problem

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
    found += [
        TurnMeasure(measure="corrections", trace_id="a", turn=1, phase=phase, value=0.0)
        for phase in ("before", "after")
    ]
    run.stage("sessions").finish(found, {"sessions": 2, "turns": 3, "tools_not_shown": 7}, [], 0.0)
    monkeypatch.setattr("composer_replication.cli.sessions.run_stage", lambda *_: None)
    evaluate_sessions(run, as_json=False)
    told = " ".join(capsys.readouterr().out.split())
    assert "Doubtful: the chat template of the model does not write tools: at 7 states" in told
    assert "[+0" not in told and "[0" not in told
    assert told.startswith("2 sessions held out; each row counts those that it has turns of:")
    assert "Not measured: corrections, 1 turn in 1 held-out session; needs turns of 2 sessions" in told
    assert "Conclusion: too few to tell" in told and "good turns too few to tell (3 turns, 2 sessions)" in told
    page = run.path / "sessions.html"
    assert f"every turn lies in {page}. next: recompose fork {run.path} " in told
    assert f"recompose show {run.path} b:0" in page.read_text() and "-1.000" in page.read_text()
    evaluate_sessions(run, as_json=True)
    (row,) = json.loads(capsys.readouterr().out)["changes"]
    assert row["difference"] == {"mean": 0.0, "lo": None, "hi": None, "n": 2} and row["verdict"] == "too few to tell"


def shown(one):
    return ShownTurn(one, [], [])


def test_turns_that_are_written_come_last_and_the_others_take_turns():
    traces = [session(str(number), read("x"), read("y"), *[said("done")] * 9) for number in range(4)]
    turns, _ = draw_turns(turns_by_kind(traces, [error(trace, 0) for trace in traces], []), shown, 16)
    kinds = [one.turn.measure for one in turns]
    assert Counter(kinds) == {"rewritten": 4, "corrections": 4, "good turns": 16}
    assert kinds[-4:] == ["rewritten"] * 4
    assert set(kinds[:3]) == set(kinds[-9:-4])


def test_turns_are_drawn_from_those_that_fit_and_of_as_many_sessions_as_have_one():
    traces = [session(str(number), *[said("done")] * (30 if number == 0 else 6)) for number in range(8)]

    def show(one):
        # Of most sessions two turns fit, of two of them none.
        return (
            "refused"
            if one.trace is traces[6]
            else shown(one)
            if one.turn < 2 and one.trace is not traces[7]
            else "too_long"
        )

    kinds = turns_by_kind(traces, [], [])
    few, told = draw_turns(kinds, show, 8)
    assert len({one.turn.trace.trace_id for one in few}) == 6 and len(few) == 8
    good = told["good turns"]
    assert (good["turns"], good["sessions"], good["found_turns"], good["found_sessions"]) == (8, 6, 72, 8)
    assert good["more_fit"] and good["refused"] == 6 and good["too_long"] >= 6
    more, told = draw_turns(kinds, show, 100)
    assert len(more) == 12 and not told["good turns"]["more_fit"], "all that fit"
    assert told["good turns"]["too_long"] == 72 - 12 - 6
    assert {(one.turn.trace.trace_id, one.turn.turn) for one in few} < {
        (one.turn.trace.trace_id, one.turn.turn) for one in more
    }


def kind(turns, sessions, found_sessions=9, too_long=0, more_fit=False):
    return {
        "turns": turns, "sessions": sessions, "found_turns": 40, "found_sessions": found_sessions,
        "too_long": too_long, "refused": 0, "more_fit": more_fit,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("tasks", "few", "helps"),
    [
        (4, kind(4, 4, more_fit=True), "new training: recompose fork runs/a runs/a-tasks-5 --set evaluation.tasks=5"),
        (8, kind(8, 4, too_long=9, more_fit=True), "--set training.max_tokens=4096"),
        (8, kind(8, 4, found_sessions=4, too_long=9, more_fit=True), "--set evaluation.held_out_sessions=0.4"),
    ],
)  # fmt: skip
def test_it_is_foretold_when_too_few_can_be_measured_and_what_helps(tasks, few, helps):
    config, place = Config(evaluation=EvaluationConfig(tasks=tasks)), Path("runs/a")
    enough, rows = kind(8, 5), [row_of("corrections", *[0.1] * 4)]
    told = told_too_few(place, config, {"good turns": enough, "corrections": few})
    assert f"This will be too few to tell, below 5 sessions: corrections {tasks} (4 sessions" in told and helps in told
    assert "conclude nothing" not in told and "conclude nothing" in told_too_few(place, config, {"corrections": few})
    command = next_step(place, config, rows, {"corrections": few})
    assert told.endswith(command) and problem(command.removeprefix("recompose ")) is None
    assert told_too_few(place, config, {"good turns": enough}) is None
    # By the same rule as the verdict, which five sessions change.
    assert row_of("good turns", *[0.1, 0.2] * 2).verdict == "too few to tell"
    assert row_of("good turns", *[0.1, 0.2] * 2, 0.3).verdict == "better"


def test_a_run_that_is_the_folder_itself_has_one_beside_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    command = next_step(Path(), Config(), [], {})
    assert command.startswith(f"recompose fork . {tmp_path}-held_out_sessions-0.4 --set ")


def test_what_is_left_out_is_told_with_its_reason():
    told = what_is_measured({"corrections": {**kind(1, 1, too_long=7), "refused": 2}}, 1024)
    assert told == (
        "1 turn, each before and after training (2 passes): corrections 1 (1 session; 7 longer than "
        "training.max_tokens = 1,024; 2 refused by the chat template)"
    )


@pytest.mark.parametrize(
    ("differences", "more_fit", "command"),
    [
        ((0.2, 0.3, 0.2, 0.3, 0.2), True, "recompose view runs/a"),
        ((-0.2, -0.3, -0.2, -0.3, -0.2), True, "recompose hint runs/a --all"),
        ((0.2, -0.3, 0.2, -0.3, 0.2), True, "recompose fork runs/a runs/a-tasks-512 --set evaluation.tasks=512"),
        ((0.2, -0.3, 0.2, -0.3, 0.2), False, "recompose fork runs/a runs/a-steps-56 --set training.steps=56"),
        ((0.0,) * 5, True, "recompose fork runs/a runs/a-steps-56 --set training.steps=56"),
    ],
)
def test_each_conclusion_has_a_next_command(differences, more_fit, command):
    rows = [row_of("good turns", *differences)]
    found = next_step(Path("runs/a"), Config(), rows, {"good turns": kind(8, 5, more_fit=more_fit)})
    assert found == command and problem(command.removeprefix("recompose ")) is None


@pytest.mark.parametrize(("cut_off", "is_doubtful"), [(6, True), (5, False)])
def test_a_row_that_the_limit_decides_is_doubtful(cut_off, is_doubtful, tmp_path, monkeypatch, capsys):
    run = Run.start(
        tmp_path / "run", Config(training=TrainingConfig(rollouts=False, max_turn_tokens=128, max_tokens=1024))
    )
    reasons = ["cut off"] * cut_off + ["no call"] * (10 - cut_off)
    found = [
        TurnMeasure(measure="rewritten", trace_id=str(number // 2), turn=0, phase=phase, value=1.0, reason=reason)
        for number, reason in enumerate(reasons)
        for phase in [("before", "after")[number % 2]]
    ]
    run.stage("sessions").finish(found, {"sessions": 5, "turns": 5, "tools_not_shown": 0}, [], 0.0)
    monkeypatch.setattr("composer_replication.cli.sessions.run_stage", lambda *_: None)
    evaluate_sessions(run, as_json=False)
    told = " ".join(capsys.readouterr().out.split())
    longer = f"recompose fork {run.path} {run.path}-max_turn_tokens-512 --set training.max_turn_tokens=512"
    doubt = "6 of 10 wrong ones are cut off at training.max_turn_tokens = 128, so this row tells more of the limit"
    assert (doubt in told) is ("rewritten all alike, doubtful (" in told) is is_doubtful
    assert told.endswith(f"next: {longer}") is (f"without a new training: {longer}" in told) is is_doubtful


def finish_times(speeds, passes=40, read_s=1.0, written_s=10.0):
    """By a clock that is made up: when the end is foreseen, after each pass. `speeds`: how much longer than foreseen
    a pass takes, by whether it is written and its place."""
    kinds = [READ] * passes + [WRITTEN] * passes
    foreseen = {READ: read_s, WRITTEN: written_s}
    ahead = {kind: foreseen[kind] * passes for kind in foreseen}
    left, now = TimeLeft(ahead), 0.0
    found = [left.left(ahead)]
    for place, kind in enumerate(kinds):
        took = foreseen[kind] * speeds(kind, place)
        now += took
        ahead = {**ahead, kind: ahead[kind] - foreseen[kind]}
        left.add(kind, foreseen[kind], took)
        found.append(now + left.left(ahead))
    return found, now


@pytest.mark.parametrize(
    "speeds",
    [
        lambda kind, place: 6.0 if place == 0 else 2.0,  # a first pass that warms up
        lambda kind, place: 3.0 if kind is READ else 0.6,  # kinds that differ
        lambda kind, place: (0.1, 1.0)[place % 2] if kind is WRITTEN else 1.0,  # turns that end early
        lambda kind, place: 1.0 if place < 50 else 3.0,  # a load that comes
    ],
)
def test_the_time_left_does_not_jump(speeds):
    found, end = finish_times(speeds)
    for earlier, later in pairwise(found):
        assert abs(later - earlier) <= 0.1 * max(earlier, later)
    assert found[-1] == pytest.approx(end) and found[-12] == pytest.approx(end, rel=0.15)


def test_the_time_left_knows_both_kinds_and_the_load_from_the_start():
    ahead = {READ: 10.0, WRITTEN: 40.0}
    assert TimeLeft(ahead, times_as_long=2.0).left(ahead) == 100
    left = TimeLeft(ahead)
    for _ in range(1000):
        left.add(READ, 10.0, 30.0)
        left.add(WRITTEN, 40.0, 20.0)
    assert left.left(ahead) == pytest.approx(3 * 10 + 40 / 2, rel=0.01)
    assert TimeLeft({READ: 0.0}).left({READ: 0.0}) == 0 and TimeLeft({}).left({READ: 4.0}) == 4, "parts may be damaged"
