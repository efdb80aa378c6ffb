"""Which limits hold for the calls of a harness, and how it is told of them."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from composer_replication.environments.code.harness.proxy import CaptureProxy
from composer_replication.environments.code.harness.segments import arranged
from composer_replication.environments.self_played import WrittenTurn
from composer_replication.records import Trace
from composer_replication.stages.attempts import StoredAttempt, counts
from composer_replication.stages.rollouts import cut_turns
from composer_replication.training.models.tokens import ChatTokens
from composer_replication.training.rollouts.sampling import SampledTurn
from composer_replication.training.rollouts.self_played import writer
from composer_replication.training.stored.records import TokenizedTrace

from .capture_client import CHAT, MESSAGES, RESPONSES, client_of

HELLO = [{"role": "user", "content": "hi"}]


@pytest.fixture(scope="module")
def proxy():
    with CaptureProxy("policy") as opened:
        yield opened


@pytest.fixture(scope="module")
def tokens(chatml_tokenizer):
    return ChatTokens(chatml_tokenizer("<|pad|>"))


def posted(proxy, path, body, key):
    with client_of(proxy) as client:
        return client.post(path, json=body, headers={"x-api-key": key})


def asked(proxy, capture, path, body):
    return posted(proxy, path, body, capture.key)


def writing(tokens, text, turn_tokens):
    """A sampler that ends at the turn's own limit."""
    ids = tokens.turn(text)[:turn_tokens]
    return writer(tokens, lambda _: SampledTurn(ids, [-0.5] * len(ids)), turn_tokens, 1 << 20, {}), ids


def test_a_turn_is_as_long_as_the_run_allows(proxy, tokens):
    write, ids = writing(tokens, "word " * 1200, 9000)
    assert len(ids) > 4096
    with proxy.session(write, 60) as capture:
        (choice,) = asked(proxy, capture, CHAT, {"messages": HELLO}).json()["choices"]
        (node,) = capture.session.graph.nodes()
    assert node.sampled_ids == ids and choice["finish_reason"] == "stop"


@pytest.mark.parametrize("key", ["max_tokens", "max_completion_tokens"])
def test_a_harness_may_ask_for_less(proxy, tokens, key):
    write, ids = writing(tokens, "some words and more", 900)
    with proxy.session(write, 60) as capture:
        answer = asked(proxy, capture, CHAT, {"messages": HELLO, "max_tokens": None, key: 3}).json()
        (node,) = capture.session.graph.nodes()
    assert node.sampled_ids == ids[:3] and answer["choices"][0]["finish_reason"] == "length"


CALLS = '<tool_call>{"name": "bash", "arguments": {"command": "ls"}}</tool_call>'


@pytest.mark.parametrize(
    ("path", "reason"),
    [(CHAT, lambda told: told["choices"][0]["finish_reason"]), (MESSAGES, lambda told: told["stop_reason"])],
)
def test_a_turn_that_was_cut_says_so_even_behind_a_whole_call(proxy, tokens, path, reason):
    write, _ = writing(tokens, f"{CALLS}\nThen I", len(tokens.turn(f"{CALLS}\nThen I")) - 1)
    with proxy.session(write, 60) as capture:
        told = asked(proxy, capture, path, {"messages": HELLO, "max_tokens": 4000}).json()
        (node,) = capture.session.graph.nodes()
    assert reason(told) in ("length", "max_tokens")
    assert node.finish_reason == "length" and node.response_message["tool_calls"]


def test_cut_turns_are_counted(tokens):
    end = tokens.end_of_turn_id
    row = TokenizedTrace(
        trace_id="a", tokenizer="t", ids=(1, 2, end, 3, 4), turn_spans=((1, 3), (3, 5)), logprobs=(), reward=0.0
    )
    assert cut_turns([row, row], end) == 2
    trace = Trace(trace_id="a", source={"agent": "harness"}, messages=(), turns=())
    told = [StoredAttempt(trace=trace, ended="finished", steps=2, wall_s=1.0, cut_turns=cut) for cut in (2, 0, None)]
    assert counts(told)["cut_turns"] == 2
    assert "cut_turns" not in counts(told[2:]), "an endpoint does not tell"


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize(
    ("path", "key"),
    [(CHAT, "max_tokens"), (CHAT, "max_completion_tokens"), (MESSAGES, "max_tokens"), (RESPONSES, "max_output_tokens")],
)
def test_a_limit_that_is_none_is_refused_in_the_words_of_the_dialect(proxy, path, key, streams):
    body = {"input": "hi"} if path == RESPONSES else {"messages": HELLO}
    turn = WrittenTurn([1], [2], [-0.5], "hello", True)
    with proxy.session(lambda _: turn, 60) as capture:
        for most in (0, -1, True, "12", 1.5, [3]):
            answer = asked(proxy, capture, path, {**body, key: most, "stream": streams})
            assert answer.status_code == 400 and not capture.session.graph.nodes(), most
            told, error = answer.json(), answer.json()["error"]
            assert error["type"] == "invalid_request_error"
            assert error["message"].endswith(f"max_tokens is a number of 1 or more, not {most!r}")
            assert told.get("type") == ("error" if path == MESSAGES else None)
        assert asked(proxy, capture, path, {**body, key: 12}).status_code == 200


def test_what_the_guard_refuses_is_in_the_words_of_the_dialect_too(proxy):
    told = posted(proxy, MESSAGES, {}, "guess").json()
    assert told["type"] == "error" and "key" in told["error"]["message"]
    assert "type" not in posted(proxy, CHAT, {}, "guess").json()


def test_a_failure_inside_openenv_is_told_as_one(proxy, monkeypatch):
    monkeypatch.setattr("openenv.core.harness.capture.server.detect", lambda *asked: 1 / 0)
    with proxy.session(lambda _: WrittenTurn([1], [2], [-0.5], "hello", True), 60) as capture:
        answer = asked(proxy, capture, MESSAGES, {"messages": HELLO})
    assert (answer.status_code, answer.json()["error"]["type"]) == (500, "api_error")


def test_what_the_model_heard_is_all_it_read_besides_system_prompts_and_its_own_turns():
    asked = [{"role": "system", "content": "Be good."}, {"role": "user", "content": "Do it."}]
    reply = {"role": "assistant", "content": "Done."}
    node = SimpleNamespace(
        node_id="a", parent_id=None, prompt_ids=[1], sampled_ids=[2], sampled_logprobs=[-0.5], request_messages=asked,
        request_tools=None, response_message=reply,
    )  # fmt: skip
    assert arranged([node]).heard == ["Do it."]
