"""Agreement tiers, samples of the policy, the origin's rule, and what never enters a pair."""

from __future__ import annotations

import json
import random

import pytest

from composer_replication.config import ToolboxConfig
from composer_replication.environments.toolbox import Call, ToolboxEpisode, make_task, next_call, trace_of
from composer_replication.environments.toolbox.environment import ToolboxEnvironment
from composer_replication.pairs import Chamber, extract_dpo_pairs, vote
from composer_replication.records import Source, TeacherReply, Trace, Turn, canonical_call, canonical_tool_call
from composer_replication.replay.parse import parse_reply
from composer_replication.stages.pairs import oracle

from .test_pairs import X, Y, Z, actor_trace, ballot, reply


def bash(command: str, description: str = "") -> str:
    return canonical_call("Bash", {"command": command, "description": description})


def functions(message) -> list[tuple[str, dict]]:
    """What a message calls, whatever its spelling."""
    return [(call["function"]["name"], json.loads(call["function"]["arguments"])) for call in message["tool_calls"]]


def say(action: str | None = None, content: str = "", arguments: str | None = None):
    if action is None and arguments is None:
        return {"role": "assistant", "content": content}
    call = json.loads(action or '{"name":"get_key"}')
    text = json.dumps(call["arguments"]) if arguments is None else arguments
    function = {"name": call["name"], "arguments": text}
    return {
        "role": "assistant",
        "content": content,
        "tool_calls": [{"id": "s", "type": "function", "function": function}],
    }


def test_spellings_of_one_call_are_one_vote():
    replies = ballot(bash("ls  -la", "x"), bash("ls -la ", "x"), bash("pwd", "x"))
    verdict = vote(replies)
    assert (verdict.action, verdict.agreement.tier) == (bash("ls -la", "x"), "exact")


def test_descriptions_do_not_split_a_vote():
    replies = ballot(bash("ls", "look"), bash("ls", "list"), bash("ls", "list"), bash("pwd"))
    verdict = vote(replies)
    assert (verdict.action, verdict.agreement.tier, verdict.agreement.votes) == (bash("ls", "list"), "critical", 3)
    assert vote(replies, Chamber(critical=False)).reason == "no_majority"


def test_the_same_tool_is_never_enough():
    assert vote(ballot(*(canonical_call("get_key", {"key": key}) for key in "abc"))).reason == "no_majority"
    assert vote(ballot(*(canonical_call("Bash", {"description": text}) for text in "abc"))).reason == "no_majority"


def test_a_family_that_words_itself_differently_still_votes_at_the_critical_tier():
    replies = [reply("a", bash("ls", "x"), key="1"), reply("a", bash("ls", "y"), key="2"), reply("b", bash("ls", "z"))]
    assert vote(replies).agreement.tier == "critical"


def toolbox_trace() -> tuple[Trace, ToolboxEnvironment, Call]:
    """A failed first call of a task whose right call has two integers."""
    for index in range(1000):
        task = make_task(ToolboxConfig(), "train", index)
        right = next_call(ToolboxEpisode(task))
        if set(right.arguments) == {"a", "b"} and task.plan[0].tool == "add_numbers":
            episode = ToolboxEpisode(task)
            episode.step(Call("nope", right.arguments).render())
            environment = ToolboxEnvironment(ToolboxConfig())
            environment.task(task.task_id)
            return trace_of(episode, "tiny", 0), environment, right
    raise AssertionError("no such task")


def test_an_environment_sees_that_calls_do_the_same():
    trace, environment, right = toolbox_trace()
    swapped = canonical_call(right.name, {"a": right.arguments["b"], "b": right.arguments["a"]})
    first = canonical_call(right.name, right.arguments)
    other = canonical_call(right.name, {"a": right.arguments["a"] + 1, "b": right.arguments["b"]})
    replies = [reply(f, a, trace_id=trace.trace_id) for f, a in (("a", first), ("b", swapped), ("c", other))]
    assert extract_dpo_pairs([trace], replies).verdicts == {"no_majority": 1}
    [pair] = extract_dpo_pairs([trace], replies, equivalent=environment.equivalent).pairs
    assert (pair.agreement.tier, pair.agreement.votes, pair.agreement.n) == ("execution", 2, 3)


def test_the_toolbox_knows_right_from_wrong_and_what_it_does_not_know():
    trace, environment, right = toolbox_trace()
    is_right, state = oracle(environment), trace.state(0)
    assert is_right(state, canonical_call(right.name, right.arguments)) is True
    assert is_right(state, canonical_call("nope", right.arguments)) is False
    foreign = actor_trace().state(0)
    assert is_right(foreign, X) is None
    assert environment.equivalent(foreign, X, Y) is None


def test_an_actor_with_a_wrong_type_did_not_do_the_agreed_call():
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    tools = ({"type": "function", "function": {"name": "get_key", "parameters": schema}},)
    trace = actor_trace('{"n": "3"}').model_copy(update={"tools": tools})
    replies = ballot(canonical_call("get_key", {"n": 3}), canonical_call("get_key", {"n": "3"}))
    [pair] = extract_dpo_pairs([trace], replies).pairs
    assert json.loads(pair.chosen["tool_calls"][0]["function"]["arguments"]) == {"n": 3}
    same = actor_trace('{"n": 3}').model_copy(update={"tools": tools})
    assert extract_dpo_pairs([same], replies).verdicts == {"agrees_with_actor": 1}


def test_another_description_is_no_error_of_the_actor():
    trace = actor_trace()
    messages = (*trace.messages[:2], say(bash("ls", "look")), *trace.messages[3:])
    trace = trace.model_copy(update={"messages": messages, "tools": ()})
    assert extract_dpo_pairs([trace], ballot(*[bash("ls", "list")] * 2)).verdicts == {"agrees_with_actor": 1}
    assert extract_dpo_pairs([trace], ballot(*[bash("ls -a", "list")] * 2)).verdicts == {"paired": 1}
    assert extract_dpo_pairs([trace], ballot(*[bash("ls", "x")] * 2), critical=False).verdicts == {"paired": 1}


def with_samples(*samples, actor='{"key": "bad"}'):
    trace = actor_trace(actor)
    return extract_dpo_pairs([trace], ballot(X, X, Y), "other", samples={trace.state_id(0): samples})


def test_the_policys_own_samples_make_both_sides():
    right, wrong = say(X, "I look it up"), say(Z)
    [pair] = with_samples(wrong, right, say(Y)).pairs
    assert (functions(pair.chosen), functions(pair.rejected)) == (functions(right), functions(wrong))
    assert (pair.chosen_from, pair.rejected_from, pair.off_policy) == ("policy", "policy", False)


def test_without_a_right_sample_the_canonical_call_is_chosen():
    [pair] = with_samples(say(Z), say(content="I give up")).pairs
    assert [canonical_tool_call(call) for call in pair.chosen["tool_calls"]] == [X]
    assert (pair.chosen_from, pair.rejected_from, pair.off_policy) == ("teachers", "policy", False)
    assert functions(pair.rejected) == functions(say(Z))


def test_the_agreed_call_has_its_arguments_in_the_order_of_the_schema():
    schema = {"properties": {"path": {}, "count": {}, "all": {}}}
    tools = ({"type": "function", "function": {"name": "head", "parameters": schema}},)
    trace = actor_trace().model_copy(update={"tools": tools})
    agreed = canonical_call("head", {"count": 3, "extra": "é", "path": "a"})

    def chosen(samples):
        return extract_dpo_pairs([trace], ballot(agreed, agreed), samples={trace.state_id(0): samples}).pairs[0].chosen

    for samples in ([say(Y)], []):
        [call] = chosen(samples)["tool_calls"]
        assert call["function"] == {"name": "head", "arguments": '{"path":"a","count":3,"extra":"é"}'}
        assert canonical_tool_call(call) == agreed


def test_a_policy_that_is_always_right_needs_no_pair():
    assert with_samples(say(X), say(X)).verdicts == {"policy_agrees": 1}


def test_samples_count_even_where_the_actor_was_right():
    assert with_samples(say(Z), actor='{"key": "x"}').verdicts == {"paired": 1}
    assert with_samples(actor='{"key": "x"}').verdicts == {"agrees_with_actor": 1}


@pytest.mark.parametrize(
    "sample", [say(arguments="{"), say(arguments="[]"), say(content=" "), {"role": "user", "content": "x"}]
)
def test_malformed_samples_enter_no_pair(sample):
    [pair] = with_samples(sample).pairs
    assert (pair.rejected_from, pair.off_policy) == ("actor", True)


def test_kinds_are_written_on_pairs():
    trace = actor_trace()
    [pair] = extract_dpo_pairs([trace], ballot(X, X), kinds={trace.state_id(0): "type_error"}).pairs
    assert pair.kind == "type_error"


def text_reply(family: str, text: str) -> TeacherReply:
    raw = json.dumps({"choices": [{"message": {"content": text}}]})
    return reply(family, None, raw=raw)


def test_plain_text_votes_only_where_it_is_asked_for():
    trace = actor_trace()
    replies = [text_reply("a", "all  done"), text_reply("b", "all done"), reply("c", X)]
    assert extract_dpo_pairs([trace], replies).verdicts == {"too_few_votes": 1}
    [pair] = extract_dpo_pairs([trace], replies, free_text=True).pairs
    assert (pair.agreement.tier, pair.chosen) == ("text", {"role": "assistant", "content": "all done"})
    later = [answer.model_copy(update={"turn": 1}) for answer in (text_reply("a", "done"), text_reply("b", " done"))]
    assert extract_dpo_pairs([trace], later, free_text=True).verdicts == {"agrees_with_actor": 1}


def majority(replies, actor='{"key": "bad"}', **fields):
    return extract_dpo_pairs([actor_trace(actor, **fields)], replies, rule="majority")


def keys(pairs):
    def key(message):
        return json.loads(message["tool_calls"][0]["function"]["arguments"])["key"]

    return [(key(pair.chosen), key(pair.rejected)) for pair in pairs]


def test_the_origins_rule_prefers_the_majority_to_the_student_and_the_student_to_the_minority():
    assert keys(majority(ballot(X, X, Y)).pairs) == [("x", "bad"), ("bad", "y")]
    assert keys(majority(ballot(X, X, Y), '{"key": "x"}').pairs) == [("x", "y")]
    assert keys(majority(ballot(X, X, Y), '{"key": "y"}').pairs) == [("x", "y")]
    assert majority(ballot(X, X), '{"key": "x"}').verdicts == {"agrees_with_actor": 1}
    assert majority(ballot(X, Y)).verdicts == {"no_majority": 1}
    assert majority(ballot(X)).verdicts == {"too_few_votes": 1}


def test_the_origins_quirks():
    same_family = [reply("a", X, key="1"), reply("a", X, key="2")]
    assert len(majority(same_family).pairs) == 1  # one vote per teacher
    assert len(majority(ballot(X, X), family="f0").pairs) == 1  # the actor's own family votes
    assert len(majority(ballot(X, X, X, Y, Y)).pairs) == 2  # more than half is enough
    pairs = majority(ballot(X, X, X, Y, Z)).pairs
    assert [(pair.chosen_from, pair.rejected_from) for pair in pairs] == [
        ("teachers", "actor"), ("actor", "teacher"), ("actor", "teacher"),
    ]  # fmt: skip
    assert len({pair.pair_id for pair in pairs}) == 3


def test_an_unparsable_turn_of_the_actor_is_never_preferred():
    trace = Trace(
        trace_id="t", source=Source(agent="x"), turns=(Turn(start=1, end=2),),
        messages=({"role": "user", "content": "u"}, say(arguments="{")),
    )  # fmt: skip
    pairs = extract_dpo_pairs([trace], ballot(X, X, Y), rule="majority").pairs
    assert [(pair.chosen_from, pair.rejected_from) for pair in pairs] == [("teachers", "actor")]


BROKEN = "BROKEN"


def is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def malformed(rng: random.Random) -> TeacherReply:
    """An answer that is cut off, damaged or no call at all, however the reply is labelled."""
    good = canonical_call("get_key", {"key": BROKEN})
    body = json.dumps({
        "model": "m", "choices": [{"finish_reason": "tool_calls", "message": {"tool_calls": [
            {"id": "c", "type": "function", "function": {"name": "get_key", "arguments": '{"key": "BROKEN"}'}}
        ]}}],
    })  # fmt: skip
    how = rng.randrange(6)
    if how == 0:  # the body was cut
        parsed = parse_reply(body[: rng.randrange(len(body))], "m")
        return reply("a", parsed.action, outcome=parsed.outcome, finish_reason=parsed.finish_reason, raw=body)
    if how == 1:  # the model ran out of tokens
        parsed = parse_reply(body.replace('"tool_calls", "message"', '"length", "message"'), "m")
        return reply("a", parsed.action, outcome=parsed.outcome, finish_reason=parsed.finish_reason)
    if how == 2:  # a careless importer says it was answered
        return reply("a", good, finish_reason="length")
    if how == 3:
        return reply("a", good[: rng.randrange(len(good))])
    if how == 4:
        while True:
            at = rng.randrange(len(good))
            damaged = good[:at] + rng.choice('{}[]",:\\\x00\ud800') + good[at + 1 :]
            if "\ud800" in damaged or not is_json(damaged):
                return reply("a", damaged)
    wrong = [f'"{BROKEN}"', f'["{BROKEN}"]', f'{{"name":"{BROKEN}"}}', f'{{"name":"f","arguments":"{BROKEN}"}}', "null"]
    return reply("a", rng.choice(wrong))


@pytest.mark.parametrize("rule", ["agreement", "majority"])
def test_unparsable_and_truncated_replies_never_enter_a_pair(rule):
    rng, trace = random.Random(5), actor_trace()
    for case in range(500):
        broken = [
            malformed(rng).model_copy(update={"family": family, "teacher": family, "key": f"broken-{family}"})
            for family in "abc"
        ]
        for replies in (broken, [*broken, reply("x", X), reply("y", X)]):
            pairs, _ = extract_dpo_pairs([trace], replies, rule=rule, free_text=False)
            for pair in pairs:
                assert BROKEN not in json.dumps([pair.chosen, pair.rejected]), (case, replies)
                assert not any(key.startswith("broken") for key in pair.provenance), (case, replies)
        assert not extract_dpo_pairs([trace], broken, rule=rule).pairs
