"""A contradiction fails wherever its test passes honestly, and changes nothing else of the file."""

import random
import unittest

import pytest

from composer_replication.environments.code.grading.challenge import draw_challenge
from composer_replication.environments.code.grading.contradict import (
    apply_edits,
    contradictable_tests,
    function_names,
    names_used,
)
from composer_replication.environments.code.grading.inside.recompose_grading.plugin import other

HONEST = """\
import math
import unittest

import pytest
from pytest import raises

VALUES = {"ä": 1}


def double(value):
    if value is None:
        raise KeyError("none")
    return value * 2


def test_number(): assert double(2) == 4


def test_text():
    assert double("ab") == "abab", "ünïcode before"
    assert "" == double("")


def test_left():
    assert 6 == double(3)


def test_list():
    assert [double(1), -2] == [2, -2]
    assert double([1, "x"]) == [1, "x", 1, "x"]


def test_dict():
    assert {"a": double(1), **VALUES} == {"a": 2, "ä": 1}


class Keys:
    def __eq__(self, there):
        return {"a", "b"} == set(there)


def keys():
    return Keys()


def test_dict_of_which_only_the_keys_are_compared():
    assert keys() == {"a": 1, "b": 2}


def test_dict_by_name_of_which_only_the_keys_are_compared():
    known = {"a": 1, "b": 2}
    assert keys() == known


def test_no_literal():
    expected = 4
    assert double(2) == expected


def test_float():
    assert double(0.5) == 1.0


def test_huge():
    assert double(5e300) == 1e301


def test_true():
    assert bool(double(1)) is True
    assert (double(0) == 0) == True


def test_none():
    assert [].append(double(1)) is None


def test_in():
    assert double(2) in (3, 4) and 5 not in (double(2),)


def test_both():
    assert isinstance(double(2), int) and double(2) == 4 and double(3) == 6


def test_isinstance():
    assert isinstance(double(1), int)


def test_order():
    assert 1 < double(1) <= 2


def test_raises():
    with pytest.raises(KeyError, match="none"):
        double(None)


def test_raises_short():
    with raises((KeyError, ValueError)) as caught:
        double(None)
    assert "none" in str(caught.value)


def test_raises_call():
    pytest.raises(KeyError, double, None)


def test_only_calls():
    double(2)
    for value in ():
        assert double(value) == 3


def test_with_helpers():
    def inner():
        return double(4)

    assert inner() == 8


def test_tuple_on_many_lines():
    assert tuple(double(number) for number in range(3)) == (
        0,
        2,
        4,
    )


@pytest.mark.parametrize("value", [1])
def test_parametrized(value=1):
    assert double(value) == 2


class TestGroup:
    def test_method(self):
        assert double(2) != 5

    class TestInner:
        def test_deep(self):
            assert double(2) == 4


class TestCase(unittest.TestCase):
    def test_equal(self):
        self.assertEqual(double(2), 4)

    def test_equal_lists(self):
        self.assertListEqual(double([1]), [1, 1])

    def test_not_equal(self):
        self.assertNotEqual(double(2), 5)

    def test_true(self):
        self.assertTrue(double(2))

    def test_in(self):
        self.assertIn(double(2), [4])

    def test_is_none(self):
        self.assertIsNone(None if double(1) else 1)

    def test_isinstance(self):
        self.assertIsInstance(double(1), int)

    def test_raises(self):
        with self.assertRaises(KeyError):
            double(None)
"""
UNSAFE = """\
import pytest
from hypothesis import given


class EqualsAll:
    def __eq__(self, other):
        return True


def test_against_what_equals_all():
    assert int("3") == EqualsAll()


def test_returns_early():
    if True:
        return
    assert 1 == 1


@given(None)
def test_decorated(): assert 1 == 1


@pytest.mark.xfail
def test_expected_to_fail():
    assert 1 == 2


def test_used():
    assert 1 == 1


def test_twice():
    assert 1 == 1


def test_twice():
    assert 2 == 2


def test_generates():
    yield
    assert 1 == 1


def test_uses():
    test_used()
    assert int("3") == 3
"""


def outcome(text, name):
    """Whether a test passes, run by hand."""
    space = {"__name__": "sample", "_other": other}
    exec(compile(text, "sample", "exec"), space)
    *classes, function = name.split("::")
    holder = space
    instance = None
    for part in classes:
        found = holder[part] if isinstance(holder, dict) else getattr(holder, part)
        instance = found(function) if issubclass(found, unittest.TestCase) else found()
        holder = found
    try:
        (getattr(instance, function) if classes else space[function])()
    except (Exception, pytest.fail.Exception):
        return False
    return True


TESTS = sorted(name for name in function_names(HONEST) if name.rpartition("::")[2].startswith("test"))


def test_all_samples_pass_and_can_be_contradicted():
    assert len(TESTS) == 33
    assert all(outcome(HONEST, name) for name in TESTS)
    ways = contradictable_tests(HONEST, names_used([HONEST]), random.Random(0))
    assert {name for name in ways if name.rpartition("::")[2].startswith("test")} == set(TESTS)


@pytest.mark.parametrize("name", TESTS)
def test_every_contradiction_fails(name):
    texts = set()
    for seed in range(25):
        chance = random.Random(seed)
        ways = contradictable_tests(HONEST, names_used([HONEST]), chance)[name]
        for edit in (*ways.by_value, *ways.by_form):
            texts.add(apply_edits(HONEST, [edit]))
    for text in texts:
        assert text != HONEST
        assert not outcome(text, name)
        others = [other for other in TESTS if other != name]
        assert all(outcome(text, other) for other in others[:3])


def test_what_is_expected_changes_where_it_can():
    ways = contradictable_tests(HONEST, names_used([HONEST]), random.Random(1))
    by_form_only = {name for name, way in ways.items() if not way.by_value}
    assert by_form_only == {
        "test_in",
        "test_isinstance",
        "test_order",
        "test_only_calls",
        "TestGroup::test_method",
        "TestCase::test_not_equal",
        "TestCase::test_true",
        "TestCase::test_in",
        "TestCase::test_is_none",
        "TestCase::test_isinstance",
    }


def test_tests_that_may_not_reach_their_end_are_left_alone():
    ways = contradictable_tests(UNSAFE, names_used([UNSAFE]), random.Random(0))
    assert set(ways) == {"test_uses"}


def challenge_of(tests, seed, texts=None):
    texts = texts or {"tests/test_a.py": HONEST}
    return draw_challenge(texts, ((tests, 0.5),), random.Random(seed))


def test_a_challenge_contradicts_some_but_not_all():
    tests = [f"tests/test_a.py::{name}" for name in TESTS[:4]]
    sizes = set()
    for seed in range(60):
        drawn = challenge_of(tests, seed)
        assert drawn.must_fail and drawn.must_pass
        assert drawn.must_fail | drawn.must_pass == set(tests)
        sizes.add(len(drawn.must_fail))
        text = drawn.texts["tests/test_a.py"]
        for test in tests:
            assert outcome(text, test.partition("::")[2]) == (test in drawn.must_pass)
    assert sizes == {2, 3}


def test_values_are_contradicted_rather_than_forms():
    tests = [f"tests/test_a.py::{name}" for name in ("test_number", "test_order")]
    drawn = [challenge_of(tests, seed).must_fail for seed in range(200)]
    assert 0.75 < sum(tests[0] in must_fail for must_fail in drawn) / 200 < 1


def test_a_lone_test_is_contradicted():
    drawn = challenge_of(["tests/test_a.py::test_number"], 0)
    assert drawn.must_fail == {"tests/test_a.py::test_number"}


def test_parameters_share_one_fate():
    tests = [f"tests/test_a.py::test_parametrized[{number}]" for number in range(3)]
    assert challenge_of(tests, 0).must_fail == set(tests)


def test_inherited_tests_share_the_fate_of_their_definition():
    base = "class Mixin:\n    def test_shared(self):\n        assert int('4') == 4\n"
    child = "from base import Mixin\n\n\nclass TestOne(Mixin):\n    pass\n\n\nclass TestTwo(Mixin):\n    pass\n"
    tests = ["tests/test_c.py::TestOne::test_shared", "tests/test_c.py::TestTwo::test_shared"]
    drawn = challenge_of(tests, 0, {"tests/base.py": base, "tests/test_c.py": child})
    assert drawn.must_fail == set(tests)
    assert set(drawn.texts) == {"tests/base.py"}


def test_a_test_of_unknown_origin_is_not_compared_with_a_contradicted_namesake():
    one = "class TestOne:\n    def test_x(self):\n        assert int('4') == 4\n"
    two = "class TestTwo:\n    def test_x(self):\n        assert int('5') == 5\n"
    unknown = "tests/test_b.py::TestMade::test_x"
    for seed in range(10):
        drawn = challenge_of(
            ["tests/test_a.py::TestOne::test_x", "tests/test_b.py::TestTwo::test_x", unknown],
            seed,
            {"tests/test_a.py": one, "tests/test_b.py": two},
        )
        assert unknown not in drawn.must_fail | drawn.must_pass


def test_unreadable_files_are_no_obstacle():
    drawn = challenge_of(["tests/test_a.py::test_number"], 0, {"tests/test_a.py": HONEST, "tests/old.py": "print 1"})
    assert drawn.must_fail


@pytest.mark.parametrize(
    "value",
    [
        True, 0, -3, 2.5, 1e300, float("inf"), "", "a", "abE", b"",
        [], [1, "x"], (), (None,), {}, {"a": [1]}, set(), {"another"},
    ],
)  # fmt: skip
def test_another_value_is_never_the_same(value):
    assert other(value) != value
    assert type(other(value)) is type(value) or other(value) == [value]
