"""What TRL's tool loop returns, as a trace: run with TRL's own loop, on turns that are given."""

from __future__ import annotations

import json

import pytest

from composer_replication.objective import SdpoSettings
from composer_replication.sites import find_sites
from composer_replication.training import ComposerReplicationTrainer
from composer_replication.training.backends.trl.environment_traces import trace_of_messages
from composer_replication.training.channels import SelfDistillation
from composer_replication.training.lessons.online_sites import TraceHinter, turn_spans
from tests.distributed.toy_environment import (
    DONE,
    FOUND,
    MALFORMED,
    MISSING,
    call,
    environment_trainer,
    lengths,
    qwen_like_tokenizer,
)

SCRIPTS = {
    "fails in its second turn": [FOUND, MISSING, DONE],
    "malformed": [MALFORMED],
    "malformed after a call": [FOUND, MALFORMED],
    "no call": [DONE],
    "three calls": [f"{call('fetch', address='x')}\n{MISSING}\n{call(path='a.txt')}", DONE],
    "unknown tool": [call("write", path="a.txt")],
    "no argument": [call()],
    "text and call": [f"Let me see. {MISSING}"],
    "same failure twice": [MISSING, MISSING],
}


@pytest.fixture(scope="module")
def step(tmp_path_factory):
    """One training step: rollouts by script, and the inputs of the loss."""
    trainer = environment_trainer(
        ComposerReplicationTrainer,
        str(tmp_path_factory.mktemp("environment")),
        list(SCRIPTS.values()),
        channels=[SelfDistillation(SdpoSettings(weight=0.5, require_disfavour=False, teacher="live"))],
        gradient_ratio_cap=None,
        hinter=TraceHinter(),
    )
    rollouts, inputs = [], []
    make, compute = trainer._rollouts, trainer._compute_loss
    trainer._rollouts = lambda *given: rollouts.extend(make(*given)) or rollouts
    trainer._compute_loss = lambda model, batch: inputs.append(batch) or compute(model, batch)
    trainer.train()
    return dict(zip(SCRIPTS, rollouts[::2], strict=True)), inputs[0], trainer.state.log_history[0]


@pytest.mark.parametrize("name", SCRIPTS)
def test_turns_are_the_runs_of_sampled_tokens(step, name):
    rolled = step[0][name]
    spans = turn_spans(rolled.sampled_mask)
    texts = [qwen_like_tokenizer().decode(rolled.completion_ids[start:end]) for start, end in spans]
    said = [*SCRIPTS[name], DONE][: len(spans)]
    assert texts == [f"{text}<|im_end|>" for text in said]
    assert len(spans) == len(rolled.trace.turns)
    for text, turn in zip(said, rolled.trace.turns, strict=True):
        message = rolled.trace.messages[turn.start]
        assert message["role"] == "assistant"
        for made in message.get("tool_calls", []):
            assert json.dumps(json.loads(made["function"]["arguments"])) in text


def sites_of(rolled):
    return [(site.turn, site.error_kind, site.tool_name, site.error_message) for site in find_sites(rolled.trace)]


def test_a_raising_tool_makes_an_error_turn(step):
    missing = "no such file: b.txt"
    assert sites_of(step[0]["fails in its second turn"]) == [(1, "runtime_error", "read", missing)]
    assert sites_of(step[0]["text and call"]) == [(0, "runtime_error", "read", missing)]
    twice = sites_of(step[0]["same failure twice"])
    assert [(turn, kind) for turn, kind, *_ in twice] == [(0, "runtime_error"), (1, "repeated_failure")]
    ((turn, kind, tool, _),) = sites_of(step[0]["no argument"])
    assert (turn, kind, tool) == (0, "type_error", "read")
    ((turn, _, tool, message),) = sites_of(step[0]["unknown tool"])
    assert (turn, tool, message) == (0, "write", "Tool write not found.")


def test_the_outcome_of_a_trace_is_its_reward(step):
    """So that a hinter can tell which rollouts went wrong, as with an environment of ours."""
    for rolled in step[0].values():
        read = sum(message["content"] == "42" for message in rolled.trace.messages)
        assert rolled.trace.outcome == lengths([rolled.completion_ids])[0] + read


def test_the_hint_quotes_the_tool_and_not_its_wrapping(step):
    ((hinted,),) = TraceHinter()([step[0]["fails in its second turn"].trace])
    assert hinted.turn == 1
    assert "no such file: b.txt" in hinted.hint
    assert "{'error'" not in hinted.hint


@pytest.mark.parametrize("name", ["malformed", "malformed after a call", "no call"])
def test_text_is_no_error_turn(step, name):
    rolled = step[0][name]
    assert sites_of(rolled) == []
    assert rolled.trace.messages[-1]["content"] == SCRIPTS[name][-1]
    assert rolled.completion_ids[-1] == qwen_like_tokenizer().eos_token_id


def test_each_of_several_calls_gets_its_own_result(step):
    """The loop reports asynchronous tools after all others."""
    rolled = step[0]["three calls"]
    asked, *results, _ = rolled.trace.messages[1:]
    names = {made["id"]: made["function"]["arguments"] for made in asked["tool_calls"]}
    answers = {names[result["tool_call_id"]]: result["content"] for result in results}
    assert answers == {
        '{"address":"x"}': "page x",
        '{"path":"b.txt"}': "no such file: b.txt",
        '{"path":"a.txt"}': "42",
    }
    assert [(turn, tool) for turn, _, tool, _ in sites_of(rolled)] == [(0, "read")]


def test_hints_know_the_tools_of_the_environment(step):
    (site,) = find_sites(step[0]["unknown tool"].trace)
    assert set(site.available_tools) == {"read", "fetch"}
    (site,) = find_sites(step[0]["no argument"].trace)
    assert site.tool_schema["required"] == ["path"]


def test_sites_reach_the_loss_with_their_tokens(step):
    _, inputs, logged = step
    found = [(row, site) for row, sites in enumerate(inputs["sdpo_sites"]) for site in sites]
    # Two samples per script.
    assert len(found) == logged["sdpo/sites"] == inputs["sdpo_number"] == 2 * 7
    for row, site in found:
        assert inputs["completion_ids"][row, site.start : site.end].tolist() == site.turn_ids
        prompt = inputs["prompt_ids"][row][inputs["prompt_mask"][row].bool()].tolist()
        before = prompt + inputs["completion_ids"][row, : site.start].tolist()
        hinted = qwen_like_tokenizer().decode(site.teacher_context)
        assert len(site.teacher_context) > len(before)
        assert hinted.count("<|im_start|>user\nReminder:") == 1
        assert hinted.endswith(qwen_like_tokenizer().decode(before)[-20:])
    assert logged["channel/sdpo"] > 0


def test_results_without_a_name_belong_to_their_calls_in_order():
    made = [{"type": "function", "function": {"name": "read", "arguments": {"path": path}}} for path in "ab"]
    trace = trace_of_messages(
        [{"role": "user", "content": "u"}],
        [
            {"role": "assistant", "content": None, "tool_calls": made},
            {"role": "tool", "content": "A"},
            {"role": "tool", "content": [{"type": "text", "text": "B"}]},
        ],
    )
    assert [message.get("tool_call_id") for message in trace.messages[2:]] == ["call_0_0", "call_0_1"]
    assert json.loads(trace.messages[3]["content"]) == [{"type": "text", "text": "B"}]
    assert find_sites(trace) == []


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (str({"error": 'it\'s "gone"\n{now}'}), 'it\'s "gone"\n{now}'),
        ("{'error': 3}", "3"),
        ("{'error': broken", "{'error': broken"),
        ("{'error': 1}, 2", "{'error': 1}, 2"),
        ("{'error': " + "[" * 9999, "{'error': " + "[" * 9999),
        ("{'result': 'error'}", None),
    ],
)
def test_what_counts_as_raised(content, error):
    made = [{"type": "function", "function": {"name": "read", "arguments": {}}}]
    completion = [{"role": "assistant", "tool_calls": made}, {"role": "tool", "name": "read", "content": content}]
    *_, result = trace_of_messages([{"role": "user", "content": "u"}], completion).messages
    assert result.get("is_error", False) == (error is not None)
    assert result["content"] == (content if error is None else error)
