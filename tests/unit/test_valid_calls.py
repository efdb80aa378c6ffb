"""A call that no listed tool takes neither votes nor is chosen, and is counted."""

from __future__ import annotations

import pytest

from composer_replication.pairs import extract_dpo_pairs
from composer_replication.pairs.signal import signal_report
from composer_replication.records import canonical_call
from composer_replication.replay.roster import teachers_to_ask
from composer_replication.replay.valid_calls import objection

from .test_pairs import X, actor_trace, reply

READ = {
    "type": "function",
    "function": {
        "name": "read",
        "parameters": {
            "type": "object",
            "properties": {
                "path": {"type": "string", "pattern": "(a+)+$"},
                "limit": {"type": "integer"},
                "lines": {"type": "array", "items": {"type": "integer"}},
                "mode": {"enum": ["r", "b"]},
            },
            "required": ["path"],
        },
    },
}


@pytest.mark.parametrize(
    ("name", "arguments", "why"),
    [
        ("read", {"path": "a"}, None),
        ("read", {"path": "a", "limit": 3, "lines": [1]}, None),
        ("read", {"path": "a", "limit": "3"}, None),
        ("read", {"path": "a", "other": 1}, None),
        ("read", {"path": "a" * 40 + "!"}, None),
        ("write", {"path": "a"}, "unknown_tool"),
        ("read", {}, "missing_argument"),
        ("read", {"limit": "x"}, "missing_argument"),
        ("read", {"path": 3}, "ill_typed_argument"),
        ("read", {"path": "a", "limit": "three"}, "ill_typed_argument"),
        ("read", {"path": "a", "limit": "3.5"}, "ill_typed_argument"),
        ("read", {"path": "a", "limit": True}, "ill_typed_argument"),
        ("read", {"path": "a", "lines": ["x"]}, "ill_typed_argument"),
        ("read", {"path": "a", "mode": "w"}, "ill_typed_argument"),
    ],
)
def test_objections(name, arguments, why):
    assert objection(canonical_call(name, arguments), [READ]) == why


def test_nothing_is_said_where_nothing_is_listed_or_the_schema_is_none():
    assert objection(canonical_call("any", {}), []) is None
    for parameters in (None, 3, {"type": "nonsense"}, {"$ref": "http://127.0.0.1:9/x"}, {"properties": 3}):
        assert objection(canonical_call("f", {"a": 1}), [{"function": {"name": "f", "parameters": parameters}}]) is None


def test_of_an_inferred_list_only_a_call_without_any_usual_argument_is_short():
    both = {"type": "object", "properties": {}, "required": ["command", "description"]}
    tools = [{"function": {"name": "bash", "parameters": both}}]
    assert objection(canonical_call("bash", {"command": "ls"}), tools) == "missing_argument"
    assert objection(canonical_call("bash", {"command": "ls"}), tools, inferred=True) is None
    assert objection(canonical_call("bash", {}), tools, inferred=True) == "missing_argument"
    assert objection(canonical_call("sh", {"command": "ls"}), tools, inferred=True) == "unknown_tool"


def strict_trace():
    """`get_key` wants its key."""
    schema = {"type": "object", "properties": {"key": {"type": "string"}}, "required": ["key"]}
    return actor_trace().model_copy(update={"tools": ({"function": {"name": "get_key", "parameters": schema}},)})


BAD = canonical_call("not_listed", {"key": "k"})
SHORT = canonical_call("get_key", {})


@pytest.mark.parametrize("bad", [BAD, SHORT])
@pytest.mark.parametrize("rule", ["agreement", "majority"])
def test_an_invalid_call_has_no_vote_and_is_never_chosen(bad, rule):
    trace, replies = strict_trace(), [reply("f0", bad), reply("f1", bad), reply("f2", X)]
    found = extract_dpo_pairs([trace], replies, rule=rule)
    assert (found.pairs, found.verdicts) == ([], {"too_few_votes": 1})


def test_the_funnel_counts_invalid_calls_by_their_kind():
    trace, replies = strict_trace(), [reply("f0", BAD), reply("f1", SHORT), reply("f2", X)]
    report = signal_report([trace], replies, [], {"too_few_votes": 1})
    assert report.dropped_replies == {"unknown_tool": 1, "missing_argument": 1}
    assert (report.funnel["replies"], report.funnel["parsed"]) == (3, 1)


def test_a_sample_of_the_policy_that_no_tool_takes_is_not_chosen():
    """It has the agreed effect but for an argument that only describes the call, and that of a wrong type."""
    schema = {"type": "object", "properties": {"command": {"type": "string"}, "description": {"type": "string"}}}
    trace = actor_trace().model_copy(update={"tools": ({"function": {"name": "bash", "parameters": schema}},)})
    agreed = canonical_call("bash", {"command": "ls", "description": "list"})

    def sample(arguments: str) -> dict:
        call = {"id": "s", "type": "function", "function": {"name": "bash", "arguments": arguments}}
        return {"role": "assistant", "content": "", "tool_calls": [call]}

    samples = [sample('{"command": "ls", "description": 7}'), sample('{"command": "rm"}')]
    replies = [reply("f0", agreed), reply("f1", agreed)]
    [pair] = extract_dpo_pairs([trace], replies, samples={trace.state_id(0): samples}).pairs
    assert (pair.chosen_from, pair.rejected_from) == ("teachers", "policy")


def test_a_vote_is_needed_from_a_higher_tier_where_the_lower_one_has_only_invalid_calls():
    from composer_replication.replay.gate import State
    from composer_replication.replay.runner import _next

    from .test_askable import GLM, QWEN

    state, higher = State(actor_trace(), 0), GLM._replace(tier=1)
    lower = [QWEN, QWEN._replace(model="deepseek/c")]
    said = [reply(one.family, BAD).model_copy(update={"teacher": one.model}) for one in lower]
    assert teachers_to_ask([*lower, higher], said) == []
    assert _next(state, [*lower, higher], said) == [higher]
