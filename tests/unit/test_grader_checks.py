"""What a process sent is judged by its value alone, and whatever is odd fails."""

import datetime
import json

import pytest

from composer_replication.environments.code.grading.checks import holds, read_claim
from composer_replication.environments.code.grading.inside.recompose_grading.observing import Observer
from composer_replication.environments.code.grading.inside.recompose_grading.plain_form import Encoder
from composer_replication.environments.code.grading.lowering import LoweredCheck
from composer_replication.environments.code.grading.recorded import (
    Recorded,
    RecordedModule,
    RecordedTest,
    as_text,
    false_checks,
    read_recorded,
)
from tests.hacks.sample_task import HIDDEN, write_sample_task


def observed(compute):
    observer = Observer()
    with observer.names()["_observe"](0) as seen:
        compute(seen)
    return json.loads(json.dumps(observer.take()))


def judged(kind, left, right, live=(True, False), **options):
    """`left` is what the submission's process computes."""
    entries = observed(lambda seen: seen(*(left, right)[: sum(live)]))
    known = {1: Encoder().form(right)}
    return holds(LoweredCheck(0, kind, live, options), read_claim(entries[0], "live"), known)


@pytest.mark.parametrize(
    "kind, left, right, opposite",
    [
        ("eq", [1, (2,)], [1, (2,)], [1, [2]]),
        ("eq", "x", "x", "y"),
        ("ne", 1, 2, 1),
        ("lt", 1, 2, 1),
        ("le", 2, 2, 1),
        ("gt", 2.5, 2, 3),
        ("ge", "b", "a", "c"),
        ("in", 1, [1], [2]),
        ("not_in", "z", "abc", "xyz"),
        ("is", None, None, False),
        ("is", True, True, 1),
        ("is_not", 0, None, 0),
        ("isinstance", {}, dict, list),
        ("isinstance", 1, (str, int), (str, float)),
        ("not_isinstance", set(), dict, set),
        ("approx", 0.1 + 0.2, 0.3, 0.31),
        ("approx", [1.0, 2.0], [1.0, 2.0 + 1e-9], [1.0]),
        ("almost_equal", 1.00000001, 1, 1.1),
        ("not_almost_equal", 1.1, 1, 1.1),
        ("regex", "abc", "b.", "x"),
        ("not_regex", "abc", "x", "b"),
        ("count_equal", [2, 1], [1, 2], [1, 1]),
        ("count_equal", [[2], [1]], [[1], [2]], [[1], [1]]),
    ],
)
def test_every_kind_tells_right_from_wrong(kind, left, right, opposite):
    assert judged(kind, left, right)
    assert not judged(kind, left, opposite)


def test_options_count():
    assert judged("approx", 1.05, 1.0, abs=0.1) and not judged("approx", 1.05, 1.0, abs=0.01)
    assert judged("almost_equal", 1.05, 1.0, delta=0.1) and not judged("almost_equal", 1.05, 1.0, places=2)


def test_truth_is_what_the_value_says():
    assert judged("truth", [0], None, live=(True,)) and not judged("truth", [], None, live=(True,))
    assert judged("falsehood", "", None, live=(True,)) and not judged("falsehood", "x", None, live=(True,))


class Lies(list):
    def __eq__(self, other):
        return True


def test_an_object_that_equals_everything_equals_what_it_holds():
    assert not judged("eq", Lies(), [1])
    assert not judged("eq", Lies([1]), [1, 2], live=(True, True))
    assert judged("isinstance", Lies(), list)


def test_abstract_classes_are_known():
    import collections.abc

    assert judged("isinstance", iter([]), collections.abc.Iterator)
    assert not judged("isinstance", [], collections.abc.Iterator)


def test_two_live_values_are_the_same_only_by_identity():
    one = [1]
    assert judged("is", one, one, live=(True, True))
    assert not judged("is", one, [1], live=(True, True))
    assert judged("is_not", iter([]), None)


def raised(error, *known):
    def compute(seen):
        if error:
            raise error

    (entry,) = observed(compute)
    operands = {index + 1: Encoder().form(value) for index, value in enumerate(known)}
    return holds(LoweredCheck(0, "raises", (True, False, False), {}), read_claim(entry, "live"), operands)


def test_exceptions_go_by_class_and_text():
    assert raised(KeyError("a b"), LookupError)
    assert raised(ValueError("a b"), (TypeError, ValueError), "a.b")
    assert not raised(ValueError("a b"), ValueError, "c")
    assert not raised(ValueError("a b"), TypeError)
    assert not raised(None, ValueError)


def test_an_exception_is_no_value():
    entry = {"seen": 0, "raised": ["builtins:ValueError"], "text": ""}
    assert not holds(LoweredCheck(0, "ne", (True, False), {}), read_claim(entry, "live"), {1: 3})


def test_a_pattern_of_the_submission_is_not_run():
    assert not judged("regex", "abc", "b", live=(True, True))


@pytest.mark.parametrize(
    "entry",
    [
        None, 3, [], {}, {"seen": "0"},
        {"seen": 0, "operands": 3, "same": []}, {"seen": 0, "operands": [[1]], "same": []},
        {"seen": 0, "operands": [[1, 2, 3, 4]], "same": [0]}, {"seen": 0, "operands": [{}], "same": [0]},
        {"seen": 0, "operands": [[1], [1]], "same": [0, 0]}, {"seen": 0, "operands": [[["list", 1]]], "same": ["x"]},
    ],
)  # fmt: skip
def test_what_no_observer_sends_holds_nowhere(entry):
    check = LoweredCheck(0, "eq", (True, False), {})
    assert false_checks([(0, {1: 1})], {0: check}, [entry]) != frozenset()


def test_the_checks_must_be_the_solutions_in_its_order():
    checks = {number: LoweredCheck(number, "eq", (True, False), {}) for number in (0, 1)}
    passages = [(0, {1: 5}), (1, {1: 6})]
    entries = [{"seen": number, "operands": [[value]], "same": [0]} for number, value in ((0, 5), (1, 6))]
    assert false_checks(passages, checks, entries) == frozenset()
    assert false_checks(passages, checks, entries[:1]) is None
    assert false_checks(passages, checks, [*entries, entries[0]]) is None
    assert false_checks(passages, checks, entries[::-1]) is None
    assert false_checks([(0, {1: 5}), (1, {1: 7})], checks, entries) == {1}
    assert false_checks(passages, checks, "forged") is None


def test_what_was_recorded_is_read_back(tmp_path):
    task = write_sample_task(tmp_path / "task")
    assert read_recorded(task) == Recorded()
    known = Encoder().form([datetime.date(2026, 1, 2), (1, 2)])
    module = RecordedModule("text", {3: LoweredCheck(3, "approx", (True, False), {"rel": 0.1})}, (3,))
    test = RecordedTest("a.py", "test_0", ((3, {1: known}),), True)
    recorded = Recorded({"a.py": module}, {HIDDEN[0]: test}, {"b": "why"})
    (task.folder / "tests" / "checks.json").write_text(as_text(recorded))
    assert read_recorded(task) == recorded
