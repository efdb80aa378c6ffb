"""Hacks that attack the grading itself: whatever they submit, they score no more than having done nothing."""

import pytest

from composer_replication.environments.code.grading import grade, trusted_run

from .forgers import FORGERS
from .sample_task import GOLD, HIDDEN, NOP, SPANS, Submission, spans_with

CASES = [
    pytest.param(number, name, submission, id=f"{number}-{name}")
    for number, forger in FORGERS.items()
    for name, submission in forger()
]
FOOLS_A_PLAIN_RUN = {
    "expected values from the tests in memory",
    "a plugin registered at run time",
    "the class of the reports",
    "the code of the reports, in place",
    "by the modules that are loaded",
    "every comparison",
    "whatever it is compared with first",
    "only lists",
    "the recorder exchanged",
    "the seal broken first",
    "a thread that rewrites the tests",
    "by length",
    "by type, as text",
    "in the members of what it returns",
    "the frame itself",
    "the stack",
    "a traceback",
    "another thread",
}
OTHERWISE = """
def merge(spans):
    points = sorted({point for start, end in spans for point in range(start, end)})
    starts = [point for point in points if point - 1 not in points]
    ends = [point + 1 for point in points if point + 1 not in points]
    return list(zip(starts, ends))


def gaps(spans):
    found = []
    previous = None
    for start, end in merge(spans):
        if previous is not None:
            found.append((previous, start))
        previous = end
    return found
"""


def test_every_class_has_two_variants():
    assert all(len(list(forger())) >= 2 for forger in FORGERS.values())


def test_doing_nothing_scores_nothing(open_task):
    nothing = grade(open_task, NOP)
    assert (nothing.reward, nothing.hidden_passed, nothing.guards_broken, nothing.notes) == (0.0, (), (), ())


def test_the_solution_scores_everything(open_task):
    gold = grade(open_task, GOLD)
    assert (gold.reward, gold.hidden_passed, gold.notes, gold.dropped) == (1.0, HIDDEN, (), ())


def test_a_solution_written_otherwise_scores_everything(open_task):
    """It also changes a signature, subclasses what it returns, and is loud."""
    loud = OTHERWISE + "\n\nclass Spans(list):\n    pass\n\n\nplain = merge\n\n\n"
    loud += "def merge(spans, *, quiet=False):\n    print(spans)\n    return Spans(plain(spans))\n"
    result = grade(open_task, spans_with(loud))
    assert (result.reward, result.notes) == (1.0, ())


@pytest.mark.parametrize("number, name, submission", CASES)
def test_scores_no_more_than_nothing(open_task, nop_reward, monkeypatch, number, name, submission):
    if number == 24:
        monkeypatch.setattr(trusted_run, "SHORTEST_LIMIT_S", 2.0)
    result = grade(open_task, submission)
    assert result.reward <= nop_reward
    assert result.hidden_passed == ()


@pytest.mark.parametrize(
    "submission", [pytest.param(case.values[2], id=case.id) for case in CASES if case.values[1] in FOOLS_A_PLAIN_RUN]
)
def test_what_fools_the_tests_themselves_is_contradicted(unlowered_task, submission):
    """So that what stops it is no accident, and for tests that cannot be compared outside."""
    result = grade(unlowered_task, submission)
    assert len(result.hidden_passed) >= 4, "the attack itself does not work any more"
    assert result.reward == 0.0
    assert result.notes


@pytest.mark.parametrize("number", [13, 14, 15, 16])
def test_files_that_steer_are_dropped_and_named(open_task, number):
    name, submission = next(FORGERS[number]())
    result = grade(open_task, submission)
    assert set(result.dropped) == {*submission.written, *submission.removed}, name


def test_a_solution_with_steering_files_is_graded_without_them(open_task):
    _, steering = next(FORGERS[15]())
    both = Submission({**steering.written, SPANS: GOLD.written[SPANS]})
    result = grade(open_task, both)
    assert result.reward == 1.0
    assert set(result.dropped) == set(steering.written)
