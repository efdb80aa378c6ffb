"""docs/own-environment.md: its code, run as it stands there."""

from __future__ import annotations

import re

import pytest

from tests.pages import ROOT

PAGE = (ROOT / "docs/own-environment.md").read_text()


@pytest.fixture(scope="module")
def names():
    """What the code leaves, and as `got` what a reward function got in the first step."""
    code = "\n".join(re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL))

    def look(**columns):
        left.setdefault("got", columns)
        return [0.0] * len(columns["prompts"])

    left = {"look": look}
    exec(code.replace("reward_funcs=[", "reward_funcs=[look, "), left)
    return left


def played(names, *turns):
    episode = names["Numbers"]().start(names["Number"]("Ann", 6))
    return episode, [episode.step(turn) for turn in turns]


def test_each_step_is_a_turn_of_the_trace(names):
    episode, answers = played(names, "4", "3", "6")
    assert answers == [("higher", False), ("higher", True), ("right", False)]
    trace = episode.trace("policy", 0)
    assert [(turn.start, turn.end) for turn in trace.turns] == [(1, 3), (3, 5), (5, 7)]
    assert [trace.state(turn)["student_action"] for turn in range(3)] == ["4", "3", "6"]
    assert trace.outcome == 1 and episode.finished


def test_the_hinter_names_the_turns_that_failed(names):
    traces = [played(names, *turns)[0].trace("policy", 0) for turns in (("4", "3", "7"), ("7", "x", "7"))]
    assert [[one.turn for one in row] for row in names["hinter"](traces)] == [[1], [1, 2]]


def test_partial_credit_is_for_what_was_ruled_out(names):
    rewards = names["narrowed"](episode_reward=[1.0, 0.0, 0.0], still_open=[1, 2, 7])
    assert rewards == [1.0, 5 / 14, 0.0]


def test_a_reward_function_gets_the_columns_of_the_table(names):
    rows = re.findall(r"^\| (`.*?) \|", PAGE, re.MULTILINE)
    told = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert names["got"].keys() - {"still_open"} == told | {"trainer_state", "log_metric", "log_extra"}
    assert len(names["got"]["still_open"]) == len(names["got"]["trace"]) == 16
    assert set(names["got"]["penalty"]) <= {-0.2, -0.4, -0.2 * 3, 0.0}


def test_the_penalty_counts_and_channel_2_hints_the_failed_turns(names):
    first = names["trainer"].state.log_history[0]
    assert first["rewards/error_penalty/mean"] < 0
    assert first["sdpo/sites/ruled_out"] > 0 and "sdpo/dropped/turns_do_not_match" not in first
