"""What cannot give a pair is refused before a cent is spent, and told what to add."""

from __future__ import annotations

import pytest

from composer_replication.config import Config, PairsConfig, ReplayConfig
from composer_replication.errors import UsageError
from composer_replication.replay.askable import askable
from composer_replication.replay.quorum import Quorum, refuse_hopeless, with_quorum
from composer_replication.replay.teachers import Teacher

from .test_askable import CONFIG, GLM, HERE, QWEN, names, states

TWO, ONE = Quorum(2, by_family=True), Quorum(1, by_family=True)
DEVSTRAL, LARGE = Teacher("devstral:24b", HERE), Teacher("mistral-large-latest", HERE)


def refused(teachers, family) -> str:
    asking = with_quorum(askable(states(family), teachers, CONFIG), TWO)
    with pytest.raises(UsageError) as caught:
        refuse_hopeless(asking, teachers, TWO)
    return str(caught.value)


def test_one_family_is_refused_and_told_whom_to_add():
    told = refused([DEVSTRAL, LARGE], None)
    assert "all of one family (mistral)" in told
    assert "add --teacher openai/gpt-oss-120b" in told and "--one-teacher" in told


def test_only_the_actors_family_is_refused():
    told = refused([QWEN, QWEN._replace(model="qwen/b")], "qwen")
    assert "all of one family (qwen)" in told
    own = [state for state in states("qwen") if state.turn != 1]
    asking = with_quorum(askable(own, [QWEN], CONFIG), ONE)
    with pytest.raises(UsageError, match="at none of 2 states may anybody be asked"):
        refuse_hopeless(asking, [QWEN], ONE)


def test_a_family_and_the_actors_own_are_not_two():
    own = [state for state in states("qwen") if state.turn != 1]
    asking = with_quorum(askable(own, [QWEN, GLM], CONFIG), TWO)
    with pytest.raises(UsageError, match="2 times one is of the family that made the turn") as caught:
        refuse_hopeless(asking, [QWEN, GLM], TWO)
    assert "--own-family" in str(caught.value)


def test_contexts_that_are_too_short_are_refused():
    short = [one._replace(context_tokens=CONFIG.max_tokens) for one in (QWEN, GLM)]
    assert "times a context is too short" in refused(short, None)
    nobodys = [state for state in states(None) if state.turn != 1]
    with pytest.raises(UsageError, match=r"4 times a context is too short; next: add --teacher [^ ]*$"):
        refuse_hopeless(with_quorum(askable(nobodys, short, CONFIG), TWO), short, TWO)


def test_nobody_is_told_to_add_a_teacher_that_has_no_batches():
    assert "add a teacher of another family, or" in refused([DEVSTRAL._replace(batch=True)], None)


def test_a_state_where_too_few_may_be_asked_costs_nothing_and_the_others_are_asked():
    mistral = Teacher("mistral-large", HERE)
    asking = with_quorum(askable(states("qwen"), [QWEN, mistral], CONFIG), TWO)
    assert names(asking) == [[], ["qwen/a", "mistral-large"], []]
    assert asking.too_few == 2
    refuse_hopeless(asking, [QWEN, mistral], TWO)


def test_nothing_to_ask_about_is_no_reason_to_refuse():
    refuse_hopeless(with_quorum(askable([], [QWEN], CONFIG), TWO), [QWEN], TWO)


def test_the_origins_rule_counts_teachers_and_one_teacher_is_enough_where_told_so():
    majority = Quorum.of(Config(pairs=PairsConfig(rule="majority")), ReplayConfig())
    assert majority.is_met([DEVSTRAL, LARGE]) and not majority.is_met([LARGE])
    assert not Quorum.of(Config(), ReplayConfig()).is_met([DEVSTRAL, LARGE])
    assert Quorum.of(Config(), ReplayConfig(one_teacher=True)).is_met([LARGE])
