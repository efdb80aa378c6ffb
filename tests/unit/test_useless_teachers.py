"""A teacher whose answers are all of no use is stopped after a few and named; so are those whose key is refused."""

from __future__ import annotations

import pytest

from composer_replication.config import ReplayConfig
from composer_replication.errors import BudgetError, PartialError, RecomposeError
from composer_replication.llm.bill import bills
from composer_replication.replay import State, Teacher, replay_states
from composer_replication.replay.askable import askable
from composer_replication.replay.quorum import Quorum
from composer_replication.replay.runner import replay_asking
from tests.scripted_teachers import ScriptedTeachers, calls

from .test_replay import STATES, failed_trace

MANY = [*STATES, *(State(failed_trace(index), 0) for index in range(20, 50))]
CONFIG = ReplayConfig(timeout_s=10, max_attempts=2, max_useless=4, concurrency=8)


def good(request: dict) -> tuple[int, dict]:
    return 200, calls(request["model"], "get_key", {"key": "k"})


def cut(request: dict) -> tuple[int, dict]:
    return 200, calls(request["model"], "get_key", {"key": "k"}, finish_reason="length")


def filtered(request: dict) -> tuple[int, dict]:
    return 200, {
        "model": request["model"],
        "choices": [{"message": {"role": "assistant", "content": ""}, "finish_reason": "content_filter"}],
    }


def other(request: dict) -> tuple[int, dict]:
    return 200, calls("prod-deployment", "get_key", {"key": "k"})


def declined(request: dict) -> tuple[int, dict]:
    """As Anthropic's own API says it."""
    return 200, {"type": "message", "model": request["model"], "content": [], "stop_reason": "refusal"}


def empty(request: dict) -> tuple[int, dict]:
    """A parser of the server took all of the answer for reasoning."""
    message = {"role": "assistant", "content": " \n", "reasoning_content": "I call get_key.", "tool_calls": []}
    return 200, {"model": request["model"], "choices": [{"message": message, "finish_reason": "stop"}]}


def bad_request(request: dict) -> tuple[int, dict]:
    return 400, {"error": {"message": "Unsupported parameter: 'temperature'"}}


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (cut, "4 × cut at max_tokens 2048 (raise replay.max_tokens)"),
        (filtered, "4 × refused (content_filter)"),
        (declined, "4 × refused (refusal)"),
        (empty, "4 × empty, without text and without a call"),
        (other, "4 × of another model, prod-deployment (if it is the same: --alias bad/model=prod-deployment)"),
        (bad_request, "4 × HTTP 400: Unsupported parameter: 'temperature'"),
    ],
)
def test_a_teacher_that_is_of_no_use_is_stopped_after_a_few_and_named(ledger, answer, words):
    with ScriptedTeachers(lambda request: (answer if request["model"] == "bad/model" else good)(request)) as server:
        teachers = [Teacher(model, server.base_url) for model in ("bad/model", "ok/model")]
        with pytest.raises(PartialError) as caught:
            replay_states(MANY, teachers, ledger, CONFIG)
        assert f"bad/model: its first 4 answers were of no use: {words}" in str(caught.value)
        assert server.models().count("bad/model") == 4
        assert server.models().count("ok/model") == len(MANY)
        with pytest.raises(PartialError):
            replay_states(MANY, teachers, ledger, CONFIG)
        again = server.models().count("bad/model")
    assert again == (8 if answer is bad_request else 4), "what was paid once is not tried again"


def test_nobody_is_asked_on_when_those_that_are_left_make_no_pair(ledger):
    with ScriptedTeachers(lambda request: (cut if request["model"] == "bad/model" else good)(request)) as server:
        teachers = [Teacher(model, server.base_url) for model in ("bad/model", "ok/model")]
        asking = askable(MANY, teachers, CONFIG)
        with pytest.raises(PartialError, match="no pair can come of it without the others"):
            replay_asking(asking, teachers, ledger, CONFIG, None, Quorum(2, by_family=True))
        assert server.models().count("bad/model") == 4
        assert server.models().count("ok/model") < len(MANY)
        paid = server.models().count("ok/model")
        with pytest.raises(PartialError, match="no pair can come of it without the others"):
            replay_asking(asking, teachers, ledger, CONFIG, None, Quorum(2, by_family=True))
        assert server.models().count("ok/model") == paid, "the same command pays for no more of it"


def test_one_good_answer_in_the_first_few_is_enough(ledger):
    answers = iter([cut, cut, cut, good])
    with ScriptedTeachers(lambda request: next(answers, cut)(request)) as server:
        replies = replay_states(MANY, [Teacher("m", server.base_url)], ledger, CONFIG)
        assert len(server.asked) == len(MANY) == len(replies)
    assert [reply.outcome for reply in replies].count("answered") == 1


def test_a_name_that_the_user_vouches_for_is_no_mismatch_even_afterwards(ledger):
    with ScriptedTeachers(other) as server:
        teacher = Teacher("bad/model", server.base_url)
        with pytest.raises(PartialError):
            replay_states(MANY, [teacher], ledger, CONFIG)
        named = teacher._replace(served_as=("prod-deployment",))
        replies = replay_states(MANY, [named], ledger, CONFIG)
        assert len(server.asked) == len(MANY), "the first four were not paid again"
    assert {reply.outcome for reply in replies} == {"answered"}


def no_credit(request: dict) -> tuple[int, dict]:
    return 429, {"error": {"message": "You exceeded your current quota", "type": "insufficient_quota"}}


def test_an_empty_account_stops_its_own_teachers_at_once_and_the_others_go_on(ledger, monkeypatch):
    monkeypatch.setenv("EMPTY_KEY", "k" * 20)
    with ScriptedTeachers(no_credit) as broke, ScriptedTeachers(good) as server:
        teachers = [
            Teacher("a/x", broke.base_url, key_variable="EMPTY_KEY"),
            Teacher("b/y", broke.base_url, key_variable="EMPTY_KEY"),
            Teacher("ok/model", server.base_url),
        ]
        with pytest.raises(BudgetError) as caught:
            replay_states(MANY, teachers, ledger, CONFIG)
        assert "wants credit (HTTP 429: You exceeded your current quota insufficient_quota)" in str(caught.value)
        assert len(broke.asked) <= 16
        assert len(server.asked) == len(MANY)
    told = {bill.teacher: bill.words for bill in bills(ledger)}
    assert told["a/x"] == {"HTTP 429": "You exceeded your current quota insufficient_quota"}
    assert told["ok/model"] == {}


@pytest.mark.parametrize(
    ("variable", "told"),
    [
        ("SOME_KEY", "refused the key (HTTP 401: who are you); next: check the key's variable and run again"),
        (None, "wants a key (HTTP 401: who are you); next: name the variable that holds one, and run again"),
    ],
)
def test_a_refused_key_is_told_from_one_that_was_not_given(ledger, monkeypatch, variable, told):
    monkeypatch.setenv("SOME_KEY", "k" * 20)
    with ScriptedTeachers(lambda request: (401, {"error": {"message": "who are you"}})) as server:
        with pytest.raises(RecomposeError) as caught:
            replay_states(MANY, [Teacher("a/x", server.base_url, key_variable=variable)], ledger, CONFIG)
        assert str(caught.value) == f"a/x's provider {told}"
        assert len(server.asked) <= 8


def test_a_model_that_is_not_served_is_left_for_later(ledger):
    """One GPU: the models are served one after the other."""
    served = "first/model"

    def one_at_a_time(request: dict) -> tuple[int, dict]:
        if request["model"] == served:
            return good(request)
        return 404, {"object": "error", "message": f"The model `{request['model']}` does not exist."}

    with ScriptedTeachers(one_at_a_time) as server:
        teachers = [Teacher(model, server.base_url) for model in ("first/model", "second/model")]
        for _ in range(2):
            with pytest.raises(PartialError, match=r"the model is not served there .*`second/model` does not exist"):
                replay_states(MANY, teachers, ledger, CONFIG)
        assert server.models().count("first/model") == len(MANY)
        assert server.models().count("second/model") <= 8
        served = "second/model"
        replies = replay_states(MANY, teachers, ledger, CONFIG)
        assert server.models().count("first/model") == len(MANY)
    assert {reply.outcome for reply in replies} == {"answered"}
