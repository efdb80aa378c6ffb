"""What the lines of a run are worth."""

import json

import pytest

from composer_replication.environments.code.grading.challenge import Challenge
from composer_replication.environments.code.grading.grader import FirstRuns, settle
from composer_replication.environments.code.grading.trusted_run import GraderFailure, RunOutcome, read_outcomes
from composer_replication.environments.code.sandbox.interface import ExecResult
from tests.hacks.sample_task import GUARDS, HIDDEN, code_task

TOKEN = "secret"


def said(*records, ending="exited", truncated=False, ready=True):
    lines = [{"token": TOKEN, "kind": "ready"}] if ready else []
    lines += [{"token": TOKEN, "order": 0, **record} if isinstance(record, dict) else record for record in records]
    text = "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)
    (outcome,) = read_outcomes(ExecResult(0, text.encode(), b"what went wrong", ending, 0.1, truncated), TOKEN)
    return outcome


def record(name, outcome="passed"):
    return {"kind": "test", "id": name, "outcome": outcome}


def outcome(passed, notes=(), timed_out=False):
    return RunOutcome(frozenset(passed), {}, (), timed_out, tuple(notes))


def settled(passed, notes=(), timed_out=False, later=(), facts=(), in_guards=None):
    hidden = frozenset(passed) & {*HIDDEN}
    guards = frozenset(passed) & {*GUARDS}
    first = FirstRuns(
        (outcome(hidden, notes, timed_out),), hidden, frozenset(facts), outcome(guards, **(in_guards or {}))
    )
    return settle(code_task(), first, tuple(later), (), 0.0)


def test_only_passed_counts():
    result = said(record("a"), *(record(name, name) for name in ("skipped", "expected", "failed", "incomplete")))
    assert result.passed == {"a"}
    assert set(result.not_passed) == {"skipped", "expected", "failed", "incomplete"}
    assert result.notes == ()


def test_a_second_record_for_a_test_counts_against_both():
    result = said(record("a"), record("a", "failed"), record("b"))
    assert result.passed == {"b"}
    assert result.notes == ("more than one record for a test",)


@pytest.mark.parametrize(
    "line",
    [
        "9 passed",
        '{"kind": "test", "id": "a", "outcome": "passed"}',
        '{"token": "wrong", "kind": "test", "id": "a", "outcome": "passed"}',
        "[]",
        "1",
        '{"token": "secret", "kind": "test", "id": "a", "outcome": "passed"}',
        '{"token": "secret", "kind": "test", "order": 1, "id": "a", "outcome": "passed"}',
        '{"token": "secret", "kind": "test", "order": [], "id": "a", "outcome": "passed"}',
        '{"token": "secret", "kind": "test", "order": 0, "id": 4, "outcome": "passed"}',
        '{"token": "secret", "kind": "reward", "value": 1}',
    ],
)
def test_a_line_of_someone_else_is_noted_and_worth_nothing(line):
    result = said(line)
    assert result.passed == frozenset()
    assert result.notes == ("a line on the channel that the recorder did not write",)


def test_cut_output_and_exchanged_functions_are_noted():
    assert said(truncated=True).notes == ("more output than a run may have",)
    assert said({"kind": "exchanged", "names": ["math.isclose"]}).notes == (
        "exchanged while the tests ran: math.isclose",
    )


def test_a_run_that_never_started_is_no_grade():
    with pytest.raises(GraderFailure, match="what went wrong"):
        said(ready=False)


def test_the_reward_is_the_share_of_hidden_tests():
    assert settled({*HIDDEN, *GUARDS}).reward == 1.0
    some = settled({*HIDDEN[:3], *GUARDS})
    assert some.reward == pytest.approx(3 / 9)
    assert (some.hidden_passed, some.hidden_failed) == (HIDDEN[:3], HIDDEN[3:])


@pytest.mark.parametrize(
    "problem",
    [
        {"passed": {*HIDDEN, *GUARDS[1:]}},
        {"passed": {*HIDDEN, *GUARDS}, "timed_out": True},
        {"passed": {*HIDDEN, *GUARDS}, "notes": ("exchanged",)},
        {"passed": {*HIDDEN, *GUARDS}, "later": ("contradicted",)},
        {"passed": {*HIDDEN, *GUARDS}, "in_guards": {"timed_out": True}},
        {"passed": {*HIDDEN, *GUARDS}, "in_guards": {"notes": ("exchanged",)}},
        {"passed": {*HIDDEN, *GUARDS}, "facts": {"tests/test_x.py::test_fact"}},
    ],
)
def test_one_objection_is_enough(problem):
    assert settled(**problem).reward == 0.0


CHALLENGE = Challenge({}, frozenset({"contradicted"}), frozenset({"true", "guard"}))


def test_an_honest_second_run_has_no_objections():
    assert CHALLENGE.objections(outcome({"true", "guard"})) == ()


@pytest.mark.parametrize(
    "passed, word",
    [({"true", "guard", "contradicted"}, "contradicted tests passed"), ({"true"}, "failed when run again")],
)
def test_both_ways_to_answer_wrongly_are_told(passed, word):
    (objection,) = CHALLENGE.objections(outcome(passed))
    assert word in objection


def test_a_second_run_that_is_late_or_odd_is_told():
    assert CHALLENGE.objections(outcome({"true", "guard"}, ("odd",), timed_out=True)) == (
        "the second run did not end in time",
        "odd",
    )
