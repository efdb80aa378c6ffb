"""Preference pairs: what two thirds of the families agree on, over what the actor did."""

from __future__ import annotations

import json

import pytest

from composer_replication.config import ToolboxConfig
from composer_replication.environments.toolbox import Call, ToolboxEpisode, make_task, next_call, parse_call, trace_of
from composer_replication.pairs import extract_dpo_pairs, vote
from composer_replication.records import (
    Agreement,
    PreferencePair,
    Source,
    TeacherReply,
    Trace,
    Turn,
    Usage,
    canonical_call,
    canonical_tool_call,
)

X, Y, Z = (canonical_call("get_key", {"key": name}) for name in "xyz")
TOOLS = ({"type": "function", "function": {"name": "get_key"}},)


def actor_trace(arguments: str = '{"key": "bad"}', family: str | None = "tiny", content: str = "") -> Trace:
    call = {"id": "c", "type": "function", "function": {"name": "get_key", "arguments": arguments}}
    return Trace(
        trace_id="t",
        source=Source(agent="toolbox"),
        messages=(
            {"role": "system", "content": "s"},
            {"role": "user", "content": "u"},
            {"role": "assistant", "content": content, "tool_calls": [call]},
            {"role": "tool", "content": "no key bad", "tool_call_id": "c", "is_error": True},
            {"role": "assistant", "content": "done"},
        ),
        turns=(Turn(start=2, end=4, source_model="tiny", family=family), Turn(start=4, end=5, source_model="tiny")),
        tools=TOOLS,
    )


def reply(family: str, action: str | None, key: str | None = None, **fields) -> TeacherReply:
    values = {
        "key": key or f"key-{family}", "state_id": "s", "trace_id": "t", "turn": 0, "teacher": f"{family}/m",
        "served_model": f"{family}/m", "family": family, "action": action, "raw": "{}", "finish_reason": "stop",
        "usage": Usage(), "cost_micros": 0, "latency_s": 0.1, "outcome": "answered" if action else "no_action",
        "simulated": False,
    }  # fmt: skip
    return TeacherReply(**(values | fields))


def ballot(*actions: str | None) -> list[TeacherReply]:
    return [reply(f"f{number}", action) for number, action in enumerate(actions)]


def only_pair(trace: Trace, replies, policy=None) -> PreferencePair:
    pairs, verdicts = extract_dpo_pairs([trace], replies, policy)
    assert verdicts == {"paired": 1}
    [pair] = pairs
    return pair


def reasons(trace: Trace, replies) -> dict[str, int]:
    pairs, verdicts = extract_dpo_pairs([trace], replies)
    assert not pairs
    return dict(verdicts)


@pytest.mark.parametrize(
    ("actions", "votes", "n"),
    [
        ((X, X), 2, 2),
        ((X, X, Y), 2, 3),
        ((X, X, X, Y), 3, 4),
        ((X, X, X, X, Y), 4, 5),
        ((X, X, X, X, Y, Z), 4, 6),
        ((X, X, X, X, X, Y, Z), 5, 7),
        ((X, X, None), 2, 2),
    ],
)
def test_two_thirds_of_the_voting_families_agree(actions, votes, n):
    verdict = vote(ballot(*actions))
    assert (verdict.action, verdict.reason) == (X, "agreed")
    families = tuple(f"f{number}" for number, action in enumerate(actions) if action == X)
    assert verdict.agreement == Agreement(tier="exact", votes=votes, n=n, families=families)


@pytest.mark.parametrize(
    "actions", [(X, Y), (X, Y, Z), (X, X, Y, Y), (X, X, Y, Z), (X, X, X, Y, Y), (X, X, X, X, Y, Y, Z)]
)
def test_less_than_two_thirds_is_no_majority(actions):
    assert vote(ballot(*actions)) == (None, None, "no_majority")


@pytest.mark.parametrize("actions", [(), (X,), (None, None), (X, None, None)])
def test_fewer_than_two_families_is_no_vote(actions):
    assert vote(ballot(*actions)) == (None, None, "too_few_votes")


def test_many_members_of_one_family_are_one_vote():
    family = [reply("a", X, key=f"k{i}") for i in range(5)]
    assert vote(family).reason == "too_few_votes"
    assert vote([*family, reply("b", Y), reply("c", Y)]).action == Y


def test_a_family_that_disagrees_with_itself_abstains():
    split = [reply("a", X, key="k1"), reply("a", Y, key="k2")]
    assert vote([*split, reply("b", X)]).reason == "too_few_votes"
    verdict = vote([*split, reply("b", Y), reply("c", Y)])
    assert (verdict.action, verdict.agreement.n, verdict.agreement.families) == (Y, 2, ("b", "c"))


@pytest.mark.parametrize("outcome", ["no_action", "truncated", "mismatched", "failed"])
def test_only_answered_replies_vote(outcome):
    silent = reply("b", X, outcome=outcome)
    assert vote([reply("a", X), silent]).reason == "too_few_votes"
    assert vote([reply("a", X), reply("a", Y, outcome=outcome), reply("b", X)]).action == X


def test_a_pair_is_the_agreed_call_over_the_actors_turn():
    trace = actor_trace()
    pair = only_pair(trace, ballot(X, X, Y))
    assert (pair.rejected["content"], pair.rejected_from) == ("", "actor")
    assert [call["function"] for call in pair.rejected["tool_calls"]] == [
        {"name": "get_key", "arguments": '{"key":"bad"}'}
    ]
    assert [canonical_tool_call(call) for call in pair.chosen["tool_calls"]] == [X]
    assert (pair.state_id, pair.trace_id, pair.turn) == (trace.state_id(0), "t", 0)
    assert pair.tools == TOOLS
    assert pair.agreement == Agreement(tier="exact", votes=2, n=3, families=("f0", "f1"))
    assert pair.precision is None


def test_the_size_of_a_pair_does_not_grow_with_its_history():
    short, long = actor_trace(), actor_trace()
    long = long.model_copy(update={"messages": ({"role": "system", "content": "s" * 100_000}, *long.messages[1:])})
    sizes = [len(only_pair(trace, ballot(X, X)).model_dump_json()) for trace in (short, long)]
    assert sizes[0] == sizes[1]


def test_the_chosen_message_is_a_valid_tool_call():
    chosen = only_pair(actor_trace(), ballot(X, X)).chosen
    assert chosen["role"] == "assistant"
    assert chosen["content"] == ""
    [call] = chosen["tool_calls"]
    assert call["type"] == "function"
    assert call["id"]
    assert call["function"]["name"] == "get_key"
    assert json.loads(call["function"]["arguments"]) == {"key": "x"}


def test_the_chosen_call_of_a_toolbox_state_is_the_one_that_works():
    task = make_task(ToolboxConfig(), "train", 3)
    right = next_call(ToolboxEpisode(task))
    failed = ToolboxEpisode(task)
    failed.step(Call("nope", right.arguments).render())
    trace = trace_of(failed, "tiny", 0)
    action = canonical_call(right.name, right.arguments)
    pair = only_pair(trace, [reply(family, action, trace_id=trace.trace_id) for family in "ab"])
    function = pair.chosen["tool_calls"][0]["function"]
    text = json.dumps({"name": function["name"], "arguments": json.loads(function["arguments"])})
    assert parse_call(text) == right
    assert ToolboxEpisode(task).step(text).error is None


def test_no_pair_where_the_actor_did_what_the_teachers_agree_on():
    assert reasons(actor_trace('{ "key" : "x" }'), ballot(X, X)) == {"agrees_with_actor": 1}
    assert reasons(actor_trace('{"key":"x"}', content="I look it up"), ballot(X, X, Y)) == {"agrees_with_actor": 1}


def test_a_turn_without_a_call_can_be_rejected():
    trace = actor_trace()
    replies = [reply(family, X, turn=1) for family in "ab"]
    assert only_pair(trace, replies).rejected == trace.messages[4]


def test_teachers_of_the_actors_family_have_no_vote():
    assert reasons(actor_trace(family="f0"), ballot(X, X)) == {"too_few_votes": 1}
    pair = only_pair(actor_trace(family="f0"), ballot(Y, X, X))
    assert pair.agreement == Agreement(tier="exact", votes=2, n=2, families=("f1", "f2"))
    same = only_pair(actor_trace(family="f0"), ballot(X, X, X))
    assert same.provenance == ("key-f1", "key-f2")


def test_everyone_votes_where_the_actors_family_is_unknown():
    assert only_pair(actor_trace(family=None), ballot(X, X)).agreement.n == 2


def test_a_pair_is_off_policy_unless_the_policy_itself_acted():
    trace, replies = actor_trace(), ballot(X, X)
    assert only_pair(trace, replies).off_policy
    assert only_pair(trace, replies, "other").off_policy
    assert not only_pair(trace, replies, "tiny").off_policy


def test_provenance_lists_the_voters_for_the_chosen_action():
    replies = [reply("c", X), reply("a", X), reply("b", Y), reply("d", X, key="k1"), reply("d", X, key="k0")]
    assert only_pair(actor_trace(), replies).provenance == ("k0", "k1", "key-a", "key-c")


def test_provenance_leaves_out_families_that_abstained():
    split = [reply("a", X, key="k1"), reply("a", Y, key="k2")]
    assert only_pair(actor_trace(), [*split, reply("b", X), reply("c", X)]).provenance == ("key-b", "key-c")


def test_simulated_teachers_mark_their_pairs():
    assert not only_pair(actor_trace(), ballot(X, X)).simulated
    assert only_pair(actor_trace(), [reply("a", X, simulated=True), reply("b", X, simulated=True)]).simulated


def test_every_state_ends_in_one_verdict():
    trace = actor_trace()
    other = trace.model_copy(update={"trace_id": "other"})
    replies = [
        *ballot(X, X), *(reply(family, X, trace_id="other") for family in "a"),
        *(reply(family, action, turn=1) for family, action in (("a", X), ("b", Y))),
        *(reply(family, X, trace_id="unknown") for family in "ab"),
    ]  # fmt: skip
    pairs, verdicts = extract_dpo_pairs([trace, other], replies)
    assert [(pair.trace_id, pair.turn) for pair in pairs] == [("t", 0)]
    assert verdicts == {"paired": 1, "too_few_votes": 1, "no_majority": 1}


def test_pair_ids_tell_states_and_choices_apart():
    one = only_pair(actor_trace(), ballot(X, X))
    ids = {
        one.pair_id, only_pair(actor_trace(), ballot(Y, Y)).pair_id,
        only_pair(actor_trace(), [reply(family, X, turn=1) for family in "ab"]).pair_id,
        only_pair(actor_trace().model_copy(update={"trace_id": "o"}), [
            reply(family, X, trace_id="o") for family in "ab"
        ]).pair_id,
    }  # fmt: skip
    assert len(ids) == 4
    assert only_pair(actor_trace(), ballot(X, X, Y)).pair_id == one.pair_id
