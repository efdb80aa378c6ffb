"""Both sides of a pair in one style: what is left to learn is the action."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from composer_replication.pairs import extract_dpo_pairs
from composer_replication.pairs.card import style_gap
from composer_replication.pairs.sides import even_sides, same_turn
from composer_replication.records import PreferencePair, Source, Trace, Turn, canonical_call
from composer_replication.training.models.loading import Policy
from composer_replication.training.models.tokens import ChatTokens
from composer_replication.training.stored.examples import build_examples
from composer_replication.training.stored.sessions import RenderedSessions

from .test_pairs import X, Y, Z, ballot

SCHEMA = {
    "properties": {
        "path": {"type": "string"},
        "count": {"type": "integer"},
        "all": {"type": "boolean", "default": False},
    }
}
TOOLS = (
    {"type": "function", "function": {"name": "head", "parameters": SCHEMA}},
    {"type": "function", "function": {"name": "get_key", "parameters": {"type": "object"}}},
)


def call(name: str, arguments: str, id: str = "c"):
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def turn(content: str, *calls):
    return {"role": "assistant", "content": content} | ({"tool_calls": list(calls)} if calls else {})


def trace_with(actor) -> Trace:
    messages = ({"role": "user", "content": "u"}, actor)
    return Trace(trace_id="t", source=Source(agent="a"), messages=messages, turns=(Turn(start=1, end=2),), tools=TOOLS)


def paired(actor, agreed: str = X, **choices) -> PreferencePair:
    [pair] = extract_dpo_pairs([trace_with(actor)], ballot(agreed, agreed), **choices).pairs
    return pair


def arguments_of(message) -> list[str]:
    return [one["function"]["arguments"] for one in message["tool_calls"]]


def test_text_beside_a_call_is_on_neither_side():
    pair = paired(turn("I will look at it first.", call("head", '{"path": "a"}')))
    assert (pair.chosen["content"], pair.rejected["content"]) == ("", "")
    assert pair.rejected["tool_calls"][0]["function"]["name"] == "head"
    assert style_gap([pair])["text"] == {"chosen": 0.0, "rejected": 0.0}


def test_text_alone_is_an_action_and_the_gap_is_measured():
    pairs = [paired(turn("All is done.\n\nBye")), paired(turn("so", call("head", '{"path": "a"}')))]
    assert pairs[0].rejected == turn("All is done.\n\nBye")
    gap = style_gap(pairs)
    assert (gap["text"], gap["no_call"]) == ({"chosen": 0.0, "rejected": 0.5}, {"chosen": 0.0, "rejected": 0.5})
    assert gap["text_beside_a_call"] == gap["several_calls"] == {"chosen": 0.0, "rejected": 0.0}


def test_both_calls_are_spelt_by_one_rule_and_share_an_id():
    agreed = canonical_call("head", {"count": 3, "path": "b"})
    pair = paired(turn("", call("head", '{"all": false, "count": 3, "path": "./a//c"}', "toolu_1")), agreed)
    assert arguments_of(pair.chosen) == ['{"path":"b","count":3}']
    assert arguments_of(pair.rejected) == ['{"path":"a/c","count":3}']
    ids = {side["tool_calls"][0]["id"] for side in (pair.chosen, pair.rejected)}
    assert len(ids) == 1 and all(len(id) == 9 and id.isalnum() for id in ids)


@pytest.mark.parametrize("arguments", ['{"path": "a', '{"count": "3"}', "[1]"])
def test_what_is_wrong_with_a_call_stays(arguments):
    [said] = arguments_of(paired(turn("hm", call("head", arguments))).rejected)
    assert said == (arguments if arguments != '{"count": "3"}' else '{"count":"3"}')


def test_of_several_calls_the_one_that_failed_is_rejected():
    actor = turn("", call("head", '{"path":"a"}', "first"), call("head", '{"path":"b"}', "second"))
    assert arguments_of(paired(actor, failed_calls={"t": {"second"}}).rejected) == ['{"path":"b"}']
    assert arguments_of(paired(actor).rejected) == ['{"path":"a"}']


def test_whoever_calls_twice_is_not_wrong_about_the_agreed_call():
    actor = turn("", call("get_key", '{"key":"bad"}', "one"), call("get_key", '{"key":"x"}', "two"))
    found = extract_dpo_pairs([trace_with(actor)], ballot(X, X))
    assert (found.pairs, found.verdicts) == ([], {"agrees_with_actor": 1})


def test_a_sample_that_calls_more_than_was_agreed_is_on_neither_side():
    def sample(*actions):
        parsed = [json.loads(action) for action in actions]
        return turn("", *(call(one["name"], json.dumps(one["arguments"])) for one in parsed))

    trace = trace_with(sample(Z))

    def found(*samples):
        return extract_dpo_pairs([trace], ballot(X, X), samples={trace.state_id(0): samples})

    assert found(sample(X, Y)).verdicts == {"policy_agrees": 1}
    [pair] = found(sample(X, Y), sample(Y)).pairs
    assert (pair.chosen_from, arguments_of(pair.rejected)) == ("teachers", ['{"key":"y"}'])


def test_two_texts_differ_in_their_words_alone():
    chosen, rejected = even_sides(turn("all done"), turn("not\n\n- yet  done "), ())
    assert (chosen["content"], rejected["content"]) == ("all done", "not - yet done")


def test_sides_of_the_majority_rule_are_alike_too():
    """The origin compares calls as they were written; two spellings of one call are no preference."""
    agreed = canonical_call("head", {"path": "a"})
    actor = turn("now", call("head", '{"path": "./a"}'))
    found = extract_dpo_pairs([trace_with(actor)], ballot(agreed, agreed), rule="majority")
    assert (found.pairs, found.verdicts) == ([], {"agrees_with_actor": 1})
    assert paired(turn("now", call("head", '{"path": "b"}')), agreed, rule="majority").rejected["content"] == ""


def test_evening_twice_changes_nothing():
    sides = even_sides(turn("a", call("head", '{"count":1,"path":"./x"}')), turn("b", call("head", "{")), TOOLS)
    assert even_sides(*sides, TOOLS) == sides


def test_the_same_turn_is_told_by_what_it_says_and_calls():
    one = turn("", call("head", '{"path": "a", "count": 1}'))
    assert same_turn(one, turn("", call("head", '{"path":"a","count":1}', "other id")))
    assert not same_turn(one, turn("", call("head", '{"count":1,"path":"a"}')))
    assert not same_turn(one, turn("so", call("head", '{"path":"a","count":1}')))
    assert not same_turn(one, turn("", call("head", '{"path":"a')))


def test_training_reads_the_sides_and_not_the_actors_own_style(chatml_tokenizer):
    import trl

    tokenizer = chatml_tokenizer("<|pad|>")
    tokenizer.chat_template = (Path(trl.__file__).parent / "chat_templates" / "qwen2_5.jinja").read_text()
    policy = Policy("qwen", None, ChatTokens(tokenizer))
    actor = turn("I will look first.", call("head", '{"count": 2, "path": "a"}'))
    pair, trace = paired(actor), trace_with(actor)
    sessions = RenderedSessions(policy, 4000)
    [example], skipped = build_examples(policy.tokens, [], {}, [], [pair], 4000, traces=[trace], sessions=sessions)
    [tokens] = example.pairs
    chosen, rejected = (tokenizer.decode(side).split("<tool_call>") for side in (tokens.chosen, tokens.rejected))
    assert not skipped
    assert chosen[0] == rejected[0]
    assert '{"path": "a", "count": 2}' in rejected[1] and '{"key": "x"}' in chosen[1]
    assert "I will look first." in tokenizer.decode(example.ids)
