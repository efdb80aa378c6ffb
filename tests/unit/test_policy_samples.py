"""Fresh turns of the policy: where they are drawn, from which tokens, how they are read, how likely a turn is."""

from __future__ import annotations

import json
import time

import pytest
import torch

from composer_replication.config import ToolboxConfig
from composer_replication.environments.toolbox import ToolboxEpisode, make_task, next_call, trace_of
from composer_replication.replay import State, states_to_ask
from composer_replication.replay.gate import states_to_sample
from composer_replication.sites import find_sites
from composer_replication.training.models.loading import Policy
from composer_replication.training.models.states import turn_logprob
from composer_replication.training.models.tokens import ChatTokens
from composer_replication.training.rollouts.state_samples import read_turn, sample_states
from composer_replication.training.stored.contexts import Contexts
from composer_replication.training.stored.lines import policy_text
from tests.headers import header_ids

from .test_gate import clumsy_traces, site, talk

TOOL_TEMPLATE = (
    "{% if tools %}<|im_start|>system\n{% for t in tools %}{{ t['function']['name'] }} {% endfor %}<|im_end|>\n"
    "{% endif %}{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] }}"
    "{% for c in m.tool_calls or [] %}<tool_call>{{ c.function.name }}({{ c.function.arguments | tojson }})</tool_call>"
    "{% endfor %}{{ '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


@pytest.fixture(scope="module")
def tiny(tiny_tokens, make_model) -> Policy:
    return Policy("tiny", make_model(len(tiny_tokens.tokenizer), seed=1), tiny_tokens)


@pytest.fixture
def tool_aware(chatml_tokenizer, make_model) -> Policy:
    tokenizer = chatml_tokenizer("<|pad|>")
    tokenizer.chat_template = TOOL_TEMPLATE
    return Policy("aware", make_model(len(tokenizer)), ChatTokens(tokenizer))


def call(name: str, arguments: dict | str, number: int = 0) -> dict:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {"id": f"call_{number}", "type": "function", "function": {"name": name, "arguments": text}}


@pytest.mark.parametrize(
    ("text", "content", "calls"),
    [
        ('{"name":"get_key","arguments":{"b": 1, "a": "x"}}', "", [call("get_key", '{"b":1,"a":"x"}')]),
        ('<tool_call>\n{"name":"a","arguments":{}}\n</tool_call>', "", [call("a", "{}")]),
        (
            'a <tool_call>{"name":"a","arguments":{}}</tool_call>\n<tool_call>{"name":"b","arguments":{}}</tool_call>',
            "a",
            [call("a", "{}"), call("b", "{}", 1)],
        ),
        ('{"name":"get_key","arguments":{"key":"k"}', '{"name":"get_key","arguments":{"key":"k"}', None),
        ('<tool_call>{"name":1}</tool_call>', '<tool_call>{"name":1}</tool_call>', None),
        ("done", "done", None),
        ("", "", None),
    ],
    ids=["bare", "marked", "two and words", "no last brace", "no call", "words", "nothing"],
)
def test_a_sampled_text_becomes_a_message(text, content, calls):
    message = read_turn(text)
    assert (message["role"], message["content"], message.get("tool_calls")) == ("assistant", content, calls)


def test_a_call_is_rendered_again_as_the_policy_wrote_it():
    right = next_call(ToolboxEpisode(make_task(ToolboxConfig(), "train", 3)))
    assert list(right.arguments) != sorted(right.arguments)
    assert policy_text(read_turn(right.render())) == right.render()


def contexts_of(policy: Policy, *texts: str) -> list[list[int]]:
    return [policy.tokens.prompt([{"role": "user", "content": text}]) for text in texts]


TEXTS = ("read app.py", "list", "write the sum of 1 and 2 to notes.md", "set key")


def drawn(policy: Policy, contexts, seed=0, samples=3, max_new_tokens=24, **options):
    return sample_states(
        policy, contexts, samples=samples, max_new_tokens=max_new_tokens, temperature=1.0, seed=seed, **options
    )


def test_samples_come_in_the_order_of_their_contexts_and_repeat_with_the_seed(tiny, monkeypatch):
    asked, spans = [], contexts_of(tiny, *TEXTS)

    def scripted(model, contexts, *, end_of_turn_id, generator, **options):
        from composer_replication.training.rollouts.sampling import SampledTurn

        asked.append((len(contexts), generator.initial_seed()))
        return [SampledTurn([context[1], end_of_turn_id], [0.0] * 2) for context in contexts]

    monkeypatch.setattr("composer_replication.training.rollouts.state_samples.sample_turns", scripted)
    monkeypatch.setattr("composer_replication.training.rollouts.state_samples.BATCH_ROWS", 6)
    done: list[int] = []
    found = drawn(tiny, spans, seed=7, on_batch=done.append)
    assert [message["content"] for own in found for message in own] == [
        tiny.tokens.text(span[1:2]) for span in spans for _ in range(3)
    ]
    assert done == [2, 4]
    assert [rows for rows, _ in asked] == [6, 6]
    assert len({seed for _, seed in asked}) == 2


def test_the_same_seed_draws_the_same_turns(tiny):
    spans = contexts_of(tiny, *TEXTS)
    first = drawn(tiny, spans, samples=16, max_new_tokens=64)
    assert first == drawn(tiny, spans, samples=16, max_new_tokens=64)
    assert first != drawn(tiny, spans, seed=1, samples=16, max_new_tokens=64)


def test_a_turn_that_was_cut_off_is_left_out(tiny):
    [cut] = drawn(tiny, contexts_of(tiny, "list"), samples=8, max_new_tokens=1)
    [longer] = drawn(tiny, contexts_of(tiny, "list"), samples=64, max_new_tokens=64)
    assert all(not message["content"] for message in cut)
    assert 0 < len(longer) < 64


def test_the_context_of_a_rollout_is_the_one_that_was_sampled_from(tiny, stored):
    fingerprint = tiny.tokenizer_fingerprint
    rows = [row.model_copy(update={"tokenizer": fingerprint}) for row in stored.rows]
    pair, row, history = stored.pairs[0], rows[0], stored.traces[0].history(0)
    start = row.turn_spans[0][0]
    odd = row.model_copy(update={"ids": (*row.ids[: start - 1], 3, *row.ids[start:])})
    assert Contexts(tiny, [odd], 512).before(pair.state_id, history, pair.tools) == list(odd.ids[:start])
    foreign = [odd.model_copy(update={"tokenizer": "another"})]
    rendered = Contexts(tiny, foreign, 512).before(pair.state_id, history, pair.tools)
    assert rendered == tiny.tokens.prompt(history) == list(row.ids[:start])


def test_a_call_that_never_ends_is_read_in_time():
    text = "<tool_call>" + " " * 20_000
    started = time.process_time()
    assert read_turn(text)["content"] == text
    assert time.process_time() - started < 1


def test_calls_are_text_where_the_template_knows_none(tiny):
    episode = ToolboxEpisode(make_task(ToolboxConfig(), "train", 3))
    right = next_call(episode)
    episode.step(right.render())
    trace = trace_of(episode, "tiny", 0)
    contexts = Contexts(tiny, [], 512)
    shown = tiny.tokenizer.decode(contexts.before("x", trace.messages, ()))
    text = json.dumps({"name": right.name, "arguments": dict(sorted(right.arguments.items()))}, separators=(",", ":"))
    assert text in shown
    assert contexts.turn(trace.messages[2]) == tiny.tokens.turn(text)
    broken = {"role": "assistant", "content": "", "tool_calls": [call("get_key", '{"key":')]}
    assert contexts.before("x", [*trace.messages[:2], broken], ()) is not None


def test_a_template_that_knows_calls_writes_them_its_own_way(tool_aware):
    contexts, said = Contexts(tool_aware, [], 512), {"role": "assistant", "content": ""}
    history = [
        {"role": "user", "content": "go"},
        {**said, "tool_calls": [call("look", {"at": "x"})]},
        {"role": "tool", "content": "no", "tool_call_id": "call_0", "is_error": True},
    ]
    tools = [{"type": "function", "function": {"name": "look"}}]
    text = tool_aware.tokenizer.decode(contexts.before("s", history, tools))
    assert text.startswith("<|im_start|>system\nlook <|im_end|>")
    assert '<tool_call>look({"at": "x"})</tool_call><|im_end|>' in text
    assert text.endswith("<|im_start|>assistant\n")
    turn = contexts.turn(history[1])
    assert tool_aware.tokenizer.decode(turn) == '<tool_call>look({"at": "x"})</tool_call><|im_end|>'
    assert tool_aware.tokenizer.decode(contexts.turn({**said, "content": "hello"})) == "hello<|im_end|>"
    unreadable = [*history[:1], {**said, "tool_calls": [call("look", "{")]}]
    assert contexts.before("s", unreadable, tools) is None


def test_a_context_that_is_too_long_is_none(tiny):
    message = [{"role": "user", "content": "read app.py"}]
    length = len(tiny.tokens.prompt(message))
    assert Contexts(tiny, [], length).before("x", message, ()) is not None
    assert Contexts(tiny, [], length - 1).before("x", message, ()) is None


def test_a_context_that_is_too_long_becomes_a_window(tiny):
    turns = [
        {"role": role, "content": f"read app.py {number}"} for number in range(9) for role in ("assistant", "user")
    ]
    history = [{"role": "user", "content": "read app.py"}, *turns]
    room = len(tiny.tokens.prompt(history)) // 2
    whole, found = (Contexts(tiny, [], most).before("x", history, ()) for most in (2 * room + 1, room))
    assert room // 2 < len(found) <= room < len(whole)
    opening, header = len(tiny.tokens.prompt(history[:1])) - len(header_ids(tiny.tokens)), len(header_ids(tiny.tokens))
    assert found[:opening] == whole[:opening]
    assert found[opening + header :] == whole[-len(found) + opening + header :], "the last turns, whole"


@torch.no_grad()
def test_the_log_probability_of_a_turn_is_the_sum_over_its_tokens(tiny):
    [context] = contexts_of(tiny, "read app.py")
    turn, total = tiny.tokens.turn("done"), 0.0
    for place, token in enumerate(turn):
        logits = tiny.model(torch.tensor([[*context, *turn[:place]]])).logits[0, -1]
        total += float(logits.log_softmax(-1)[token])
    assert turn_logprob(tiny, context, turn) == pytest.approx(total, abs=1e-4)


def test_error_states_are_sampled_first_and_the_others_in_an_order_that_stays():
    traces = clumsy_traces(24)
    sites = [found for trace in traces for found in find_sites(trace)]
    errors, everything = states_to_ask(traces, sites), sum(len(trace.turns) for trace in traces)
    drawn_states = states_to_sample(traces, sites, 10_000, 0)
    assert drawn_states[: len(errors)] == errors
    assert len(drawn_states) == len({state.state_id for state in drawn_states}) == everything
    assert states_to_sample(traces, sites, len(errors) + 5, 0) == drawn_states[: len(errors) + 5]
    assert states_to_sample(traces, sites, 10_000, 1)[len(errors) :] != drawn_states[len(errors) :]


def test_equal_requests_are_sampled_once():
    twins = [talk("a", 2, "same"), talk("b", 2, "same")]
    assert [state.turn for state in states_to_sample(twins, [site("b", 0)], 10, 0)].count(0) == 1
    assert states_to_sample(twins, [site("b", 0)], 1, 0) == [State(twins[1], 0)]


def test_all_calls_of_a_turn_are_written_and_letters_stay_letters():
    def call(number, name, arguments):
        function = {"name": name, "arguments": json.dumps(arguments)}
        return {"id": str(number), "type": "function", "function": function}

    one, two = call(0, "read", {"path": "Übung.txt"}), call(1, "list", {})
    alone = policy_text({"role": "assistant", "content": "", "tool_calls": [one]})
    assert alone == '{"name":"read","arguments":{"path":"Übung.txt"}}'
    both = policy_text({"role": "assistant", "content": "", "tool_calls": [one, two]})
    assert [each["function"]["name"] for each in read_turn(both)["tool_calls"]] == ["read", "list"]
    assert read_turn(both)["tool_calls"][0]["function"]["arguments"] == '{"path":"Übung.txt"}'
    lone = policy_text({"role": "assistant", "content": "", "tool_calls": [call(0, "read", {"path": "\ud800"})]})
    assert lone.encode()
