"""Warm-up demonstrations and the supervised loop that learns from them."""

from __future__ import annotations

import json
import random
from itertools import groupby

import pytest
import torch
from transformers import GraniteConfig, GraniteForCausalLM

from composer_replication.config import ToolboxConfig, WarmupConfig
from composer_replication.environments.toolbox import ToolboxEpisode, make_task, next_call
from composer_replication.environments.toolbox.environment import ToolboxEnvironment
from composer_replication.environments.toolbox.logs import log_of
from composer_replication.training import warmup
from composer_replication.training.warmup import warm_up

CLEAN = {
    "hint_rate": 0.0,
    "stale_name_rates": (0.0, 0.0),
    "quoted_int_rates": (0.0, 0.0),
    "missing_brace_rates": (0.0, 0.0),
}
TASKS = [make_task(ToolboxConfig(rename_rate=0.5), "train", index) for index in range(40)]


def demonstrate(task, tokens, config, rng):
    return warmup.demonstration(log_of(task, config, rng), tokens, config.context_weight)


def settings(**changes):
    return WarmupConfig(**{**CLEAN, **changes})


def turns_of(shown, tokens):
    """The texts of the stretches with weight 1."""
    texts = []
    pairs = zip(shown.ids, shown.weights, strict=True)
    for own, stretch in groupby(pairs, key=lambda pair: pair[1] == 1):
        if own:
            texts.append(tokens.text([token for token, _ in stretch]))
    return texts


def demonstrations(tokens, tasks=None, **changes):
    tasks = TASKS if tasks is None else tasks
    return [(task, demonstrate(task, tokens, settings(**changes), random.Random(3))) for task in tasks]


def test_clean_demonstrations_solve_their_task(tiny_tokens):
    for task, demonstration in demonstrations(tiny_tokens):
        episode = ToolboxEpisode(task)
        for text in turns_of(demonstration, tiny_tokens):
            assert episode.step(text).error is None
        assert episode.finished
        assert episode.reward == 1


def test_a_demonstration_is_the_conversation_as_the_template_renders_it(tiny_tokens):
    for task, demonstration in demonstrations(tiny_tokens):
        episode, messages = ToolboxEpisode(task), list(task.messages)
        for text in turns_of(demonstration, tiny_tokens):
            answer = episode.step(text).observation
            messages.append({"role": "assistant", "content": text})
            if answer is not None and not episode.finished:
                messages.append({"role": "tool", "content": answer})
        rendered = tiny_tokens.tokenizer.apply_chat_template(messages, tokenize=True, return_dict=False)
        assert demonstration.ids == rendered


@pytest.mark.parametrize("context_weight", [0.0, 0.3])
def test_weights_are_one_on_turns_small_on_context_and_zero_on_hints(tiny_tokens, context_weight):
    marks = ["<|assistant|>", "<|user|>", "<|end|>", "Reminder"]
    assistant, user, end, reminder = tiny_tokens.tokenizer.convert_tokens_to_ids(marks)
    hinted = 0
    for task, demonstration in demonstrations(tiny_tokens, hint_rate=1.0, context_weight=context_weight):
        expected, state = [], "context"
        prompt = len(tiny_tokens.prompt(task.messages))
        for position, token in enumerate(demonstration.ids):
            if token == user and demonstration.ids[position + 1] == reminder:
                state, hinted = "hint", hinted + 1
            expected.append({"context": context_weight, "hint": 0.0, "turn": 1.0}[state])
            if token == end and state in ("hint", "turn"):
                state = "context"
            if token == assistant and position >= prompt - 1:
                state = "turn"
        assert demonstration.weights == expected
    assert hinted >= len(TASKS)


def test_a_hinted_turn_is_right_whatever_the_noise(tiny_tokens):
    noise = {"stale_name_rates": (1, 1), "quoted_int_rates": (1, 1), "missing_brace_rates": (1, 1)}
    for task, demonstration in demonstrations(tiny_tokens, hint_rate=1.0, **noise):
        episode = ToolboxEpisode(task)
        for text in turns_of(demonstration, tiny_tokens):
            episode.step(text)
        assert episode.reward == 1


def test_stale_logs_call_tools_by_their_base_name(tiny_tokens):
    renamed = 0
    for task, demonstration in demonstrations(tiny_tokens, stale_name_rates=(1, 1)):
        calls = [json.loads(text) for text in turns_of(demonstration, tiny_tokens)[:-1]]
        assert [call["name"] for call in calls] == list(task.composition)
        renamed += any(task.listing_of(tool).name != tool for tool in task.composition)
    assert renamed > 3


def test_quoted_logs_write_integers_as_strings(tiny_tokens):
    integers = 0
    for task, demonstration in demonstrations(tiny_tokens, quoted_int_rates=(1, 1)):
        calls = [json.loads(text) for text in turns_of(demonstration, tiny_tokens)[:-1]]
        for call, step in zip(calls, task.plan, strict=True):
            assert call["arguments"] == {name: str(value) for name, value in step.arguments.items()}
            integers += any(isinstance(value, int) for value in step.arguments.values())
    assert integers > 3


def test_broken_logs_miss_their_last_brace(tiny_tokens):
    for (_, clean), (_, broken) in zip(
        demonstrations(tiny_tokens), demonstrations(tiny_tokens, missing_brace_rates=(1, 1)), strict=True
    ):
        right, wrong = turns_of(clean, tiny_tokens), turns_of(broken, tiny_tokens)
        assert wrong == [*(text[:-1] for text in right[:-1]), "done"]


def test_no_demonstration_holds_an_unknown_token(tiny_tokens):
    rng = random.Random(0)
    unknown = tiny_tokens.tokenizer.unk_token_id
    logs = [demonstrate(task, tiny_tokens, WarmupConfig(), rng) for task in TASKS]
    assert sum(unknown in log.ids for log in logs) == 0


def test_demonstrations_follow_their_generator(tiny_tokens):
    def noisy(seed):
        rng = random.Random(seed)
        return [demonstrate(task, tiny_tokens, WarmupConfig(), rng) for task in TASKS]

    assert noisy(1) == noisy(1)
    assert noisy(1) != noisy(2)


@pytest.mark.parametrize("optimizer", ["muon", "adamw"])
def test_warm_up_lowers_the_loss(make_model, tiny_tokens, optimizer):
    model = make_model(len(tiny_tokens.tokenizer))
    config = WarmupConfig(steps=10, batch_size=4, optimizer=optimizer, learning_rate=1e-2)
    seen = []
    warm_up(
        model, tiny_tokens, ToolboxEnvironment(ToolboxConfig()), config, 0, lambda step, loss: seen.append((step, loss))
    )
    assert [step for step, _ in seen] == list(range(1, 11))
    losses = [loss for _, loss in seen]
    assert max(losses[-3:]) < 0.9 * min(losses[:2])
    assert not model.training
    assert all(parameter.grad is None for parameter in model.parameters())


def test_warm_up_repeats_itself(make_model, tiny_tokens):
    def run(seed):
        model, losses = make_model(len(tiny_tokens.tokenizer)), []
        config = WarmupConfig(steps=2, batch_size=3)
        warm_up(
            model, tiny_tokens, ToolboxEnvironment(ToolboxConfig()), config, seed, lambda _, loss: losses.append(loss)
        )
        return losses, torch.cat([parameter.detach().flatten() for parameter in model.parameters()])

    first, again, other = run(0), run(0), run(1)
    assert first[0] == again[0]
    assert torch.equal(first[1], again[1])
    assert first[0] != other[0]


@pytest.mark.parametrize("optimizer", ["muon", "adamw"])
def test_warm_up_moves_every_parameter(make_model, tiny_tokens, optimizer):
    model, config = make_model(len(tiny_tokens.tokenizer)), WarmupConfig(steps=1, batch_size=2, optimizer=optimizer)
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    warm_up(model, tiny_tokens, ToolboxEnvironment(ToolboxConfig()), config, 0, lambda *_: None)
    assert [name for name, parameter in model.named_parameters() if torch.equal(parameter, before[name])] == []


def test_the_first_loss_is_the_weighted_mean_over_the_batch(make_model, tiny_tokens):
    """Also when the batch spans several micro-batches of different lengths."""
    model, losses = make_model(len(tiny_tokens.tokenizer)), []
    config = WarmupConfig(steps=1, batch_size=19)
    rng = random.Random("warmup:0")
    total, weight = 0.0, 0.0
    for index in range(19):
        log = demonstrate(make_task(ToolboxConfig(), "train", index), tiny_tokens, config, rng)
        with torch.no_grad():
            logprobs = model(torch.tensor([log.ids])).logits[0].log_softmax(-1)
        for position in range(1, len(log.ids)):
            total -= log.weights[position] * logprobs[position - 1, log.ids[position]].item()
            weight += log.weights[position]
    warm_up(model, tiny_tokens, ToolboxEnvironment(ToolboxConfig()), config, 0, lambda _, loss: losses.append(loss))
    assert losses[0] == pytest.approx(total / weight, rel=1e-4)


def test_the_loss_of_turns_alone_is_the_same_where_a_model_scales_its_logits(tiny_tokens):
    shape = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 1}
    model = GraniteForCausalLM(GraniteConfig(vocab_size=len(tiny_tokens.tokenizer), logits_scaling=0.1, **shape)).eval()
    batch = [demonstration for _, demonstration in demonstrations(tiny_tokens, context_weight=0.0)][:2]
    whole, of_turns = (loss(model, 0, batch).item() for loss in (warmup._loss, warmup._loss_of_turns))
    assert of_turns == pytest.approx(whole, rel=1e-4)


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_a_hint_cures_its_own_kind_alone_with_a_chance(share):
    """Every fault is certain, so that a hinted turn without any is one that its hint has cured of everything."""
    rates = {"stale_name_rates": (1.0, 1.0), "quoted_int_rates": (1.0, 1.0), "missing_brace_rates": (1.0, 1.0)}
    config, rng = settings(hint_rate=1.0, hints_cure=share, **rates), random.Random(3)
    written = [turn.text for task in TASKS for turn in log_of(task, config, rng).turns if turn.hint]
    right = [text for task in TASKS for text in _right_calls(task)]
    clean = sum(text == wanted for text, wanted in zip(written, right, strict=True)) / len(written)
    assert clean == pytest.approx(1 - share, abs=0.2)


def _right_calls(task):
    episode = ToolboxEpisode(task)
    while call := next_call(episode):
        yield call.render()
        episode.step(call.render())
