"""Episodes of verifiers: a graph of messages becomes one session per leaf, and each turn counts once."""

from __future__ import annotations

import json

import pytest

from composer_replication.ingestion.formats import TRACE_READERS, detect_format
from composer_replication.ingestion.reading import InputFile, ReadingReport


def node(parent, role, content, **message):
    return {"parent": parent, "sampled": role == "assistant", "message": {"role": role, "content": content, **message}}


def episode(nodes, **trace):
    task = {"type": "Task", "data": {"id": "sum-1"}, "key": "abc"}
    calls = [{"node": place, "model": "policy"} for place, one in enumerate(nodes) if one["sampled"]]
    return {
        "id": "e", "env": {"id": "sums"}, "task": task, "ok": True, "errors": [],
        "traces": [{"id": "t", "task": task, "nodes": nodes, "calls": calls, "rewards": {}, **trace}],
    }  # fmt: skip


@pytest.fixture
def read(tmp_path):
    def sessions(*episodes):
        path = tmp_path / "traces.jsonl"
        path.write_text("".join(json.dumps(one) + "\n" for one in episodes))
        assert detect_format(InputFile(path, ReadingReport())) == "verifiers"
        return [each.trace() for each in TRACE_READERS["verifiers"].read(InputFile(path, ReadingReport()))]

    return sessions


CALL = {"id": "c", "type": "function", "name": "add", "arguments": '{"a": 1}'}
NODES = [
    node(None, "system", "Add."),
    node(0, "user", "1 + 1?"),
    node(1, "assistant", None, tool_calls=[CALL]),
    node(2, "tool", "Field required: b", tool_call_id="c"),
    node(3, "assistant", "2"),
]


def test_a_conversation_has_its_calls_their_answers_and_the_weighted_reward(read):
    rewards = {"right": {"score": 1.0, "weight": 0.5}, "short": {"score": 0.5}, "judged": None}
    (trace,) = read(episode(NODES, rewards=rewards))
    assert [message["role"] for message in trace.messages] == ["system", "user", "assistant", "tool", "assistant"]
    assert trace.messages[2]["tool_calls"][0]["function"]["name"] == "add"
    assert trace.messages[3]["content"] == "Field required: b"
    assert (trace.task_id, trace.outcome, len(trace.turns)) == ("sum-1", 1.0, 2)
    assert {turn.source_model for turn in trace.turns} == {"policy"}


def test_a_turn_of_two_leaves_counts_in_the_first_alone(read):
    forked = [*NODES, node(3, "assistant", "3")]
    first, second = read(episode(forked))
    assert (len(first.turns), len(second.turns)) == (2, 1)
    assert second.messages[-1]["content"] == "3" and len(second.messages) == 5


def test_what_no_model_sampled_is_no_turn(read):
    shown = [*NODES[:2], {**node(1, "assistant", "An example."), "sampled": False}, node(2, "assistant", "2")]
    (trace,) = read(episode(shown))
    assert len(trace.turns) == 1 and trace.messages[2]["content"] == "An example."


def test_an_episode_without_a_score_has_no_outcome(read):
    (trace,) = read(episode(NODES, rewards={"right": None}))
    assert trace.outcome is None


def test_a_parent_that_comes_later_leads_nowhere(read):
    (trace, *_) = read(episode([*NODES[:4], {**NODES[4], "parent": 4}]))
    assert len(trace.messages) <= 5
