"""What counts as an answer that can be had without the feature, and what the reward makes of tests that pass on one."""

import pytest

from composer_replication.environments.code.certificates import cheap_answers
from composer_replication.environments.code.certificates.cheap_answers import (
    NotCheap,
    judged,
    remember_arguments,
)
from composer_replication.environments.code.certificates.strength import cheap_solution, units
from composer_replication.environments.code.tasks.task import Symbol
from tests.hacks.sample_task import SPANS, SPANS_GOLD, write_sample_task


def answers(function, *args, **kwargs):
    try:
        judged(function)(*args, **kwargs)
    except NotCheap:
        return False
    return True


def doubled(value):
    return value * 2


def twice(value):
    return value + value


@pytest.mark.parametrize(
    "function, args",
    [
        (lambda value: None, (7,)),
        (lambda value: [*value], ([3, 4],)),
        (lambda value: (step for step in value), ([3, 4],)),
        (lambda value: str(value), (7,)),
        (lambda table: table["a"], ({"a": 31},)),
        (lambda function, values: [function(value) for value in values], (abs, [-3, 4])),
        (doubled, (8,)),
    ],
    ids=["constant", "argument", "iterator", "builtin", "part", "map", "neighbour"],
)
def test_a_cheap_answer(function, args):
    assert answers(function, *args)


@pytest.mark.parametrize(
    "function, args",
    [
        (lambda value: value * 3 + 4, (7,)),
        (lambda values: (step + 5 for step in values), ([3, 4],)),
        (lambda values: values.append(9) or values, ([3, 4],)),
        (lambda value: object(), (7,)),
    ],
    ids=["computed", "iterator", "argument that was changed", "object"],
)
def test_an_answer_that_takes_the_feature(function, args):
    assert not answers(function, *args)


def test_an_exception_is_an_answer_that_anybody_can_give():
    with pytest.raises(ZeroDivisionError):
        judged(lambda value: value // 0)(1)


def test_only_the_outermost_call_is_judged():
    def counted(value):
        return judged(lambda inner: inner * 3 + 4)(value) and None

    assert answers(counted, 7)


def test_what_an_object_was_made_of_is_at_hand():
    class Address:
        def __init__(self, text):
            self.parts = text.split("/")

        def text(self):
            return "/".join(self.parts)

    assert not answers(Address.text, Address("a/b"))
    remember_arguments({"__name__": __name__, "Address": Address})
    assert answers(Address.text, Address("a/b"))


def test_a_few_constants_can_be_guessed_and_many_not(monkeypatch):
    monkeypatch.setenv("PYTEST_CURRENT_TEST", "guesses (call)")
    assert [answers(lambda value: value % 3 == 0, 11 * step) for step in range(1, 11)] == [True] * 8 + [False] * 2
    monkeypatch.setenv("PYTEST_CURRENT_TEST", "always (call)")
    assert all(answers(lambda value: value > 0, 11 * step) for step in range(1, 11))
    monkeypatch.setenv("PYTEST_CURRENT_TEST", "never (call)")
    assert all(answers(lambda value: None if value % 3 else False, 11 * step) for step in range(1, 11))


def test_documented_examples_and_answers(monkeypatch):
    monkeypatch.setattr(cheap_answers, "DOCUMENTED", {"7,by=3": ["9301"]})
    assert answers(lambda value, by: 9301, 7, by=3) and not answers(lambda value, by: 9301, 8, by=3)
    monkeypatch.setattr(cheap_answers, "ANSWERS", {"<lambda>": ["9301"]})
    assert answers(lambda value, by: 9301, 8, by=3)


def test_the_cheap_solution_has_each_function_that_gives_something_judged(tmp_path):
    task = write_sample_task(tmp_path / "task")
    changed = cheap_solution(task, {SPANS: SPANS_GOLD}, task.code_task.symbols)
    assert changed[SPANS].count(".judged\ndef ") == 2 and ".judged\ndef merge" in changed[SPANS]
    module = next(text for path, text in changed.items() if path != SPANS)
    assert '"[(0,2),(1,3)]": ["[(0,3)]"]' in module, "the example of the README"
    assert cheap_solution(task, {SPANS: SPANS_GOLD}, [Symbol(file=SPANS, name="absent")]) == {}


def test_cheap_tests_are_joined_to_those_that_prove_something():
    assert units("abcde", "bd") == (("b", "a", "e"), ("d", "c"))
    assert units("abc", "") == (("a", "b", "c"),)
    assert units("ab", "ab") == (("a",), ("b",))


def test_the_reward_is_the_share_of_whole_units(tmp_path):
    known = write_sample_task(tmp_path / "task").code_task
    first, second, *others = known.hidden_tests
    assert known.share_of_units([first]) == pytest.approx(1 / 9)
    joined = known.model_copy(update={"units": ((first, second), tuple(others))})
    assert [joined.share_of_units(passed) for passed in ([first], [first, second], known.hidden_tests)] == [0, 0.5, 1]
