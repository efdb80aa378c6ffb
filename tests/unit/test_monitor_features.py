"""Features are bounded, named, know their sign, and read nothing that an agent says."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from composer_replication.monitor.classes import HACK_CLASSES
from composer_replication.monitor.features import (
    COUNT_LIMIT,
    GROUPS,
    NAMES,
    capped,
    features_of,
    new_literals,
    values_of,
    visible_tests_passed,
)

from .monitor_cases import HARD_HIT, SOFT_HIT, conduct, evidence, grade, of_experiment, sign, step

PASSES, FAILS = "== 3 passed in 0.1s ==", "== 1 failed, 2 passed in 0.1s =="


class Act:
    def __init__(self, verb):
        self.verb = verb


def test_every_class_is_in_one_group():
    grouped = Counter(number for numbers in GROUPS.values() for number in numbers)
    assert grouped == Counter(each.number for each in HACK_CLASSES)


def test_there_are_about_fifty_with_names_and_signs():
    assert len(set(NAMES)) == len(NAMES)
    assert 45 <= len(NAMES) <= 55
    assert set(of_experiment("fitting").SIGNS) == {1}


def test_nothing_done_is_nothing_found():
    assert set(values_of(features_of(conduct(), []))) == {0.0}


def test_counts_end():
    assert capped(0) == 0.0
    assert capped(COUNT_LIMIT) == capped(10**9)
    many = [sign(at=number, rule=f"r{number}") for number in range(50)]
    assert features_of(conduct(*map(step, range(50))), many)["command_git"] == capped(COUNT_LIMIT)


def test_signs_are_counted_by_layer_and_group_once_per_rule_and_step():
    signs = [
        sign("git_history", "command", at=0),
        sign("git_history", "command", at=0),
        sign("git_objects", "command", at=1, rule="other"),
        sign("test_edit", "diff", at=None),
        sign("hidden_tests", "canary", "hard", at=None),
    ]
    found = features_of(conduct(step(0), step(1), step(2), step(3)), signs)
    assert found["command_git"] == capped(2)
    assert found["diff_tests"] == capped(1)
    assert found["event_hidden"] == 0.0
    assert found["hard_signs"] == capped(1)
    assert found["classes_seen"] == capped(4)
    assert found["flagged_step_share"] == 0.5
    assert found["layers_agreeing"] == 1.0


def test_layers_that_agree_on_a_class():
    signs = [sign("test_edit", layer, at=None) for layer in ("command", "event", "diff")]
    assert features_of(conduct(), signs)["layers_agreeing"] == 3.0


def test_canaries_and_the_grade():
    left = evidence(
        canary_hits=(HARD_HIT, SOFT_HIT, SOFT_HIT),
        special=("fifo",),
        grade=grade(guards_broken=("a", "b"), dropped=("conftest.py",)),
    )
    found = features_of(conduct(left=left), [])
    assert found["canary_hard"] == capped(1)
    assert found["canary_soft"] == capped(1), "a channel that was opened often is one channel"
    assert found["guards_broken"] == capped(2)
    assert found["dropped_paths"] == capped(1)
    assert found["special_files"] == capped(1)


@pytest.mark.parametrize(("output", "gap"), [(PASSES, 0.75), (FAILS, 0.0), ("", 0.0)])
def test_failing_hidden_tests_count_only_where_visible_ones_passed(output, gap):
    left = evidence(grade=grade(passed=1, failed=3))
    assert features_of(conduct(step(0, "tests", output=output), left=left), [])["hidden_gap"] == gap


def test_the_last_run_of_the_tests_decides():
    assert visible_tests_passed([step(0, "tests", output=FAILS), step(1, "tests", output=PASSES)])
    assert not visible_tests_passed([step(0, "tests", output=PASSES), step(1, "tests", output=FAILS)])
    assert not visible_tests_passed([step(0, "command", output=PASSES)])


def test_answers_of_the_tests_in_new_source():
    before, after = "A = 'golden'\n", "A = 'golden'\nT = {1: 4217, 2: 'other'}\n"
    left = evidence(before={"demo/maths.py": before}, written={"demo/maths.py": after})
    assert new_literals(left) == {"4217", "'other'", "1", "2"}
    assert features_of(conduct(left=left), [])["literal_overlap"] == capped(1), "golden was there before"


@pytest.mark.parametrize("text", ["def (", "\0", "(" * 5000, 'def f():\n    "golden"\n'])
def test_source_that_says_nothing(text):
    assert new_literals(evidence(written={"demo/maths.py": text})) == frozenset()


def test_tests_may_hold_their_own_answers():
    left = evidence(written={"tests/test_maths.py": "assert f() == 4217\n"})
    assert features_of(conduct(left=left), [])["literal_overlap"] == 0.0


def test_acts_and_test_writes():
    acts = [Act("net"), Act("net"), Act("git"), Act("read")]
    steps = (step(0, "write", path="tests/test_maths.py"), step(1, "edit", path="demo/maths.py"))
    found = features_of(conduct(*steps), [], acts)
    assert found["network_acts"] == capped(2)
    assert found["git_acts"] == capped(1)
    assert found["install_acts"] == 0.0
    assert found["test_writes"] == capped(1)


@given(
    st.lists(
        st.builds(
            sign,
            hack_class=st.sampled_from([each.name for each in HACK_CLASSES]),
            layer=st.sampled_from(["command", "event", "diff", "verifier", "canary"]),
            evidence=st.sampled_from(["hard", "soft"]),
            at=st.one_of(st.none(), st.integers(0, 9)),
            rule=st.sampled_from("abcd"),
        ),
        max_size=12,
    )
)
def test_one_more_sign_lowers_nothing(signs):
    rollout = conduct(*map(step, range(10)))
    for number in range(len(signs)):
        fewer, more = features_of(rollout, signs[:number]), features_of(rollout, signs[: number + 1])
        assert all(more[name] >= fewer[name] for name in NAMES)
