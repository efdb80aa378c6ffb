"""Channels 2 and 3 against plain per-site and per-pair computations without padding."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from composer_replication.losses import generalized_jsd_loss
from composer_replication.objective import SdpoSettings
from composer_replication.training import ComposerDataCollator
from composer_replication.training.channels import ReplayPreference, SelfDistillation, action_logprobs

PAD = 0
EVERY_SITE = SdpoSettings(require_disfavour=False)


@pytest.fixture
def model(make_model, tiny_tokens):
    return make_model(len(tiny_tokens.tokenizer), seed=1)


def collate(examples):
    return ComposerDataCollator(PAD)(examples)


def gradient(model, loss):
    grads = torch.autograd.grad(loss, list(model.parameters()), allow_unused=True)
    return torch.cat([grad.flatten() for grad in grads if grad is not None])


def relative_error(got, expected):
    return ((got - expected).norm() / expected.norm()).item()


def logits_of(model, ids):
    return model(torch.tensor([ids]), use_cache=False).logits[0]


def naive_self_distillation(model, examples, beta, temperature=1.0):
    losses = []
    for example in examples:
        for site in example.sites:
            turn = example.ids[site.start : site.end]
            student = logits_of(model, example.ids[: site.end])[site.start - 1 : -1]
            with torch.no_grad():
                teacher = logits_of(model, site.teacher_context + turn)[-len(turn) - 1 : -1]
            losses.append(generalized_jsd_loss(student, teacher, beta=beta, temperature=temperature))
    return sum(losses) / len(losses)


def naive_logprob(model, prompt, answer):
    logprobs = logits_of(model, prompt + answer).log_softmax(-1)
    return sum(logprobs[len(prompt) + i - 1, token] for i, token in enumerate(answer))


@pytest.mark.parametrize("beta", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_self_distillation_equals_a_plain_computation_per_site(model, examples, beta, temperature):
    channel = SelfDistillation(EVERY_SITE.model_copy(update={"jsd_beta": beta, "temperature": temperature}))
    loss, expected = channel.loss(model, collate(examples)), naive_self_distillation(model, examples, beta, temperature)
    assert expected > 1e-3
    assert loss.item() == pytest.approx(expected.item(), abs=1e-5)
    assert relative_error(gradient(model, loss), gradient(model, expected)) < 1e-4


def test_replay_preference_equals_a_plain_computation_per_pair(model, examples):
    terms, referenced = [], []
    for shift, example in enumerate(examples):
        pairs = [replace(pair, reference_chosen=-9.0 - shift, reference_rejected=-8.0) for pair in example.pairs]
        referenced.append(replace(example, pairs=pairs))
        for pair in pairs:
            chosen = naive_logprob(model, pair.prompt, pair.chosen)
            rejected = naive_logprob(model, pair.prompt, pair.rejected)
            margin = (chosen - pair.reference_chosen) - (rejected - pair.reference_rejected)
            terms.append(-torch.nn.functional.logsigmoid(0.1 * margin))
    expected = sum(terms) / len(terms)
    loss = ReplayPreference().loss(model, collate(referenced))
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
    assert relative_error(gradient(model, loss), gradient(model, expected)) < 1e-4


def test_an_empty_hint_leaves_nothing_to_learn(model, examples):
    unhinted = [
        replace(example, sites=[replace(site, teacher_context=example.ids[: site.start]) for site in example.sites])
        for example in examples
    ]
    loss = SelfDistillation(EVERY_SITE).loss(model, collate(unhinted))
    assert loss.abs() < 1e-6
    assert gradient(model, loss).norm() < 1e-4
    assert SelfDistillation(EVERY_SITE).loss(model, collate(examples)) > 1e-3


@pytest.mark.parametrize("channel", [SelfDistillation(EVERY_SITE), ReplayPreference()])
def test_nothing_to_learn_from_is_exactly_zero(model, examples, channel):
    loss = channel.loss(model, collate([replace(example, sites=[], pairs=[]) for example in examples]))
    assert loss.shape == ()
    assert loss.item() == 0


def test_no_gradient_flows_through_the_teacher(model, examples):
    """With the student's own row cut from the graph nothing is left."""
    batch = collate(examples)
    only_teacher_tokens = set(batch["ctx_teacher_input_ids"].flatten().tolist()) - set(
        batch["input_ids"].flatten().tolist()
    )
    assert only_teacher_tokens
    loss = SelfDistillation(EVERY_SITE.model_copy(update={"jsd_beta": 0.0})).loss(model, batch)
    (grad,) = torch.autograd.grad(loss, [model.model.embed_tokens.weight])
    assert grad[sorted(only_teacher_tokens)].abs().max() == 0
    assert grad.abs().max() > 0


@pytest.mark.parametrize(("key", "shift"), [("sdpo_start", 1), ("sdpo_start", -1), ("sdpo_row", 1)])
def test_misaligned_tokens_are_refused(model, examples, key, shift):
    batch = collate(examples)
    batch[key] = (batch[key] + shift) % len(examples) if key == "sdpo_row" else batch[key] + shift
    with pytest.raises(ValueError, match="teacher and student tokens differ"):
        SelfDistillation(EVERY_SITE).loss(model, batch)


def test_one_changed_token_is_refused(model, examples):
    batch = collate(examples)
    last = int(batch["sdpo_loss_mask"][0].nonzero()[-1])
    batch["ctx_teacher_input_ids"][0, last] += 1
    with pytest.raises(ValueError, match="site 0"):
        SelfDistillation(EVERY_SITE).loss(model, batch)


@pytest.mark.parametrize("channel", [SelfDistillation(EVERY_SITE), ReplayPreference()])
def test_the_order_of_a_batch_does_not_matter(model, examples, channel):
    forward, backward = collate(examples), collate(list(reversed(examples)))
    losses = [channel.loss(model, batch) for batch in (forward, backward)]
    assert losses[0].item() == pytest.approx(losses[1].item(), abs=1e-6)
    assert relative_error(gradient(model, losses[0]), gradient(model, losses[1])) < 1e-4


def test_each_site_weighs_the_same_however_long_its_turn(model, examples):
    """The mean of sites, not of tokens, also across traces with different numbers of sites."""
    alone = [
        naive_self_distillation(model, [replace(example, sites=[site])], 0.5).item()
        for example in examples
        for site in example.sites
    ]
    loss = SelfDistillation(EVERY_SITE).loss(model, collate(examples)).item()
    assert loss == pytest.approx(sum(alone) / 4, abs=1e-5)


def test_the_loss_mask_is_not_the_attention_mask(model, examples):
    """Hiding an environment token from attention changes the loss; its place in the loss mask never does."""
    batch = collate(examples)
    plain = SelfDistillation(EVERY_SITE).loss(model, batch)
    row, environment = int(batch["sdpo_row"][0]), int(batch["sdpo_start"][0]) - 2
    assert batch["response_mask"][row, environment] == 0
    assert batch["attention_mask"][row, environment] == 1

    flipped = {**batch, "response_mask": batch["response_mask"].clone()}
    flipped["response_mask"][row, environment] = 1
    assert SelfDistillation(EVERY_SITE).loss(model, flipped).item() == pytest.approx(plain.item(), abs=1e-6)

    hidden = {**batch, "attention_mask": batch["attention_mask"].clone()}
    hidden["attention_mask"][row, environment] = 0
    assert (SelfDistillation(EVERY_SITE).loss(model, hidden) - plain).abs() > 1e-5


def test_the_preference_mask_selects_tokens_without_changing_them(model, examples):
    batch = collate(examples)
    plain = action_logprobs(model, batch)[0][0]
    environment = 4
    ids = batch["dpo_chosen_input_ids"][0].tolist()
    counted = {**batch, "dpo_chosen_response_mask": batch["dpo_chosen_response_mask"].clone()}
    counted["dpo_chosen_response_mask"][0, environment] = 1
    extra = logits_of(model, ids)[environment - 1].log_softmax(-1)[ids[environment]]
    assert action_logprobs(model, counted)[0][0].item() == pytest.approx((plain + extra).item(), abs=1e-3)


def test_padding_content_is_ignored(model, examples):
    with torch.no_grad():
        losses = [
            [channel.loss(model, ComposerDataCollator(pad)(examples)).item() for pad in (PAD, 17)]
            for channel in (SelfDistillation(EVERY_SITE), ReplayPreference())
        ]
    for first, second in losses:
        assert first == pytest.approx(second, abs=1e-6)


def test_replay_at_the_reference_is_log_2(model, examples):
    with torch.no_grad():
        referenced = [
            replace(
                example,
                pairs=[
                    replace(
                        pair,
                        reference_chosen=naive_logprob(model, pair.prompt, pair.chosen).item(),
                        reference_rejected=naive_logprob(model, pair.prompt, pair.rejected).item(),
                    )
                    for pair in example.pairs
                ],
            )
            for example in examples
        ]
    loss = ReplayPreference().loss(model, collate(referenced))
    assert loss.item() == pytest.approx(math.log(2), abs=1e-5)
