"""Whom to ask where: not about a turn of one's own family, not beyond one's context; and what a dry run says of it."""

from __future__ import annotations

import pytest

from composer_replication.config import ReplayConfig
from composer_replication.llm.ledger import Ledger
from composer_replication.pairs import extract_dpo_pairs
from composer_replication.replay import State, Teacher, replay_states
from composer_replication.replay.askable import askable
from composer_replication.replay.estimate import estimate
from composer_replication.replay.requests import questions, request_key

from .test_pairs import X, Y, actor_trace, reply
from .test_replay import TRACES, Recorder, answer

HERE = "http://127.0.0.1:9/v1"
CONFIG = ReplayConfig(timeout_s=10, max_attempts=1)


def states(family: str | None) -> list[State]:
    """Three turns of one trace whose middle one is of another family."""
    trace = TRACES[0]
    families = (family, "glm", family)
    turns = tuple(turn.model_copy(update={"family": own}) for turn, own in zip(trace.turns, families, strict=True))
    return [State(trace.model_copy(update={"turns": turns}), turn) for turn in range(3)]


QWEN, GLM = Teacher("qwen/a", HERE), Teacher("z-ai/glm-b", HERE)


def names(asking) -> list[list[str]]:
    return [[teacher.name for teacher in teachers] for _, teachers in asking.teachers]


def test_a_teacher_is_not_asked_about_a_turn_of_its_own_family():
    asking = askable(states("qwen"), [QWEN, GLM], CONFIG)
    assert names(asking) == [["z-ai/glm-b"], ["qwen/a"], ["z-ai/glm-b"]]
    assert (asking.own_family, asking.too_long.total()) == ({"qwen/a": 2, "z-ai/glm-b": 1}, 0)


def test_it_is_asked_where_the_config_allows_it_or_nobody_knows_the_family():
    allowed = askable(states("qwen"), [QWEN, GLM], ReplayConfig(own_family=True))
    assert names(allowed) == [["qwen/a", "z-ai/glm-b"]] * 3
    assert not allowed.own_family
    assert names(askable(states(None), [QWEN], CONFIG)) == [["qwen/a"]] * 3


def test_a_teacher_with_a_short_context_is_shown_a_window_or_not_asked():
    asked = states(None)
    roomy = QWEN._replace(context_tokens=1_000_000)
    lengths = [question_tokens(state) for state in asked]
    assert lengths == sorted(lengths) and lengths[0] < lengths[2]
    tight = QWEN._replace(context_tokens=lengths[2] + CONFIG.max_tokens - 1, label="tight")
    asking = askable(asked, [roomy, tight], CONFIG)
    assert names(asking) == [["qwen/a", "tight"]] * 3
    assert (asking.windowed, asking.too_long.total(), asking.own_family.total()) == ({"tight": 1}, 0, 0)
    none = QWEN._replace(context_tokens=lengths[0] + CONFIG.max_tokens - 1, label="none")
    beyond = askable(asked, [none], CONFIG)
    assert names(beyond)[0] == []
    assert beyond.too_long["none"] >= 1


def test_what_fits_is_asked_as_before_and_a_window_under_a_name_of_its_own():
    asked = states(None)
    tight = QWEN._replace(context_tokens=question_tokens(asked[2]) + CONFIG.max_tokens - 1)
    whole = questions([(state, [QWEN]) for state in asked], CONFIG.max_tokens)
    short = questions([(state, [tight]) for state in asked], CONFIG.max_tokens)
    assert [one.key for one in short[:2]] == [one.key for one in whole[:2]]
    assert short[2].key != whole[2].key
    for one in (*whole, *short):
        assert one.key == request_key(one.request())
    shown = short[2].request()["messages"]
    everything = whole[2].request()["messages"]
    assert len(shown) < len(everything)
    assert shown[0] == everything[0]
    # The call before failed: it and its error stay.
    assert shown[-2:] == everything[-2:]


def question_tokens(state: State) -> int:
    """By the bytes of the request's messages and tools."""
    from composer_replication.llm.pricing import TOKENS_PER_BYTE
    from composer_replication.records import canonical_json
    from composer_replication.replay.prompts import wire_message

    messages = (wire_message(message) for message in state.trace.history(state.turn))
    size = len(canonical_json(state.trace.tools).encode())
    return round((size + sum(len(canonical_json(message).encode()) for message in messages)) * TOKENS_PER_BYTE)


@pytest.mark.parametrize("tier", [0, 1])
def test_nothing_is_sent_to_a_teacher_that_must_not_be_asked(tmp_path, tier):
    ledger = Ledger(tmp_path / "ledger.sqlite")
    with Recorder(answer(model="qwen/m")) as own, Recorder(answer(model="glm/m")) as other:
        teachers = [
            own.teacher()._replace(model="qwen/m"),
            other.teacher()._replace(model="glm/m", tier=tier),
        ]
        replies = replay_states(states("qwen"), teachers, ledger, CONFIG)
    ledger.close()
    assert (len(own.asked), len(other.asked)) == (1, 2)
    assert [(reply.turn, reply.teacher) for reply in replies] == [(0, "glm/m"), (1, "qwen/m"), (2, "glm/m")]


def test_a_dry_run_counts_who_is_not_asked(tmp_path):
    asked, teachers = states("qwen"), [QWEN, GLM._replace(context_tokens=CONFIG.max_tokens)]
    found = estimate(askable(asked, teachers, CONFIG), teachers, CONFIG.max_tokens, tmp_path / "none.sqlite")
    assert [(one.teacher, one.calls, one.own_family, one.too_long) for one in found] == [
        ("qwen/a", 1, 2, 0),
        ("z-ai/glm-b", 0, 1, 2),
    ]


def test_an_estimate_that_fails_leaves_no_ledger_open(tmp_path, monkeypatch):
    path = tmp_path / "ledger.sqlite"
    Ledger(path).close()
    opened, closed = [], []
    monkeypatch.setattr(Ledger, "settled_keys", lambda ledger: opened.append(ledger) or 1 / 0)
    monkeypatch.setattr(Ledger, "close", lambda ledger: closed.append(ledger))
    with pytest.raises(ZeroDivisionError):
        estimate(askable([], [QWEN], CONFIG), [QWEN], CONFIG.max_tokens, path)
    assert opened and closed == opened


def test_a_teacher_that_was_allowed_votes_too():
    trace, replies = actor_trace(family="f0"), [reply("f0", X), reply("f1", X)]
    assert extract_dpo_pairs([trace], replies).verdicts == {"too_few_votes": 1}
    [pair] = extract_dpo_pairs([trace], replies, own_family=True).pairs
    assert pair.agreement.families == ("f0", "f1")
    assert extract_dpo_pairs([trace], [reply("f0", X), reply("f1", Y)], own_family=True).verdicts == {"no_majority": 1}
