"""Preference losses against plain loops in Python floats, and the cached reference log-probabilities they need."""

from __future__ import annotations

import copy
import json
import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from composer_replication.errors import RecomposeError
from composer_replication.losses import PreferenceLoss, preference_loss
from composer_replication.objective import TrdpoSettings
from composer_replication.training import ComposerDataCollator
from composer_replication.training.channels import ReplayPreference
from composer_replication.training.models.loading import Policy
from composer_replication.training.models.tokens import ChatTokens
from composer_replication.training.stored import reference
from composer_replication.training.stored.examples import PairTokens, TraceExample
from composer_replication.training.stored.reference import policy_fingerprint, with_reference_logprobs

CHOSEN, REJECTED = [-3.0, -10.0, -4.0, -20.0], [-5.0, -2.0, -4.5, -30.0]
REFERENCE_CHOSEN, REFERENCE_REJECTED = [-3.5, -9.0, -4.0, -14.0], [-4.0, -3.0, -6.0, -31.0]
CHOSEN_TOKENS, REJECTED_TOKENS = [4, 6, 5, 30], [6, 4, 5, 12]
SMOOTHING = [0.0, 0.1, 0.2, 0.5]


def pairs(**options) -> dict:
    return {
        "chosen_B": torch.tensor(CHOSEN, requires_grad=True),
        "rejected_B": torch.tensor(REJECTED, requires_grad=True),
        "reference_chosen_B": torch.tensor(REFERENCE_CHOSEN),
        "reference_rejected_B": torch.tensor(REFERENCE_REJECTED),
        "chosen_tokens_B": torch.tensor(CHOSEN_TOKENS),
        "rejected_tokens_B": torch.tensor(REJECTED_TOKENS),
        **options,
    }


def naive(beta, smoothing, nll_weight, dpop_weight, normalised, sft_only) -> float:
    total = 0.0
    for i in range(4):
        c, r = CHOSEN[i] - REFERENCE_CHOSEN[i], REJECTED[i] - REFERENCE_REJECTED[i]
        shorter, longer = sorted((CHOSEN_TOKENS[i], REJECTED_TOKENS[i]))
        if normalised is True or (normalised == "auto" and longer / shorter > 1.5):
            c, r = c / CHOSEN_TOKENS[i] * shorter, r / REJECTED_TOKENS[i] * shorter
        sure = 1 / (1 + math.exp(-beta * (c - r)))
        preference = -(1 - smoothing[i]) * math.log(sure) - smoothing[i] * math.log(1 - sure)
        drop = max(0.0, REFERENCE_CHOSEN[i] - CHOSEN[i]) / CHOSEN_TOKENS[i]
        likelihood = -CHOSEN[i] / CHOSEN_TOKENS[i]
        total += nll_weight * likelihood
        if not sft_only:
            total += preference + dpop_weight * drop
    return total / 4


@pytest.mark.parametrize("nll_weight", [1.0, 0.3, 0.0])
@pytest.mark.parametrize("dpop_weight", [0.0, 5.0])
@pytest.mark.parametrize("normalised", [False, True, "auto"])
def test_loss_is_the_formula(nll_weight, dpop_weight, normalised):
    got = preference_loss(
        **pairs(),
        beta=0.3,
        label_smoothing_B=torch.tensor(SMOOTHING),
        nll_weight=nll_weight,
        dpop_weight=dpop_weight,
        length_normalised=normalised,
    )
    expected = naive(0.3, SMOOTHING, nll_weight, dpop_weight, normalised, False)
    assert got.loss.item() == pytest.approx(expected, rel=1e-5)


def test_the_defaults_are_conservative_dpo_with_likelihood():
    expected = naive(0.1, [0.0] * 4, 1.0, 0.0, False, False)
    assert preference_loss(**pairs()).loss.item() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("label_smoothing", [0.0, 0.2])
def test_without_likelihood_it_is_bit_identical_to_dpo(label_smoothing):
    sides = pairs()
    margin = 0.1 * (
        (sides["chosen_B"] - sides["reference_chosen_B"]) - (sides["rejected_B"] - sides["reference_rejected_B"])
    )
    plain = -((1 - label_smoothing) * F.logsigmoid(margin) + label_smoothing * F.logsigmoid(-margin)).mean()
    ours = preference_loss(**sides, nll_weight=0.0, label_smoothing_B=label_smoothing).loss
    assert torch.equal(ours, plain)
    for side in ("chosen_B", "rejected_B"):
        (ours_grad,), (plain_grad,) = (
            torch.autograd.grad(loss, sides[side], retain_graph=True) for loss in (ours, plain)
        )
        assert torch.equal(ours_grad, plain_grad)


def preference_alone(*sides, label_smoothing=0.0):
    """Of chosen and rejected actions and their references."""
    tokens = torch.ones(len(sides[0]))
    return preference_loss(
        *sides, chosen_tokens_B=tokens, rejected_tokens_B=tokens, nll_weight=0.0, label_smoothing_B=label_smoothing
    ).loss


@pytest.mark.parametrize("label_smoothing", [0.0, 0.2])
def test_at_the_reference_the_preference_is_log_2(label_smoothing):
    chosen, rejected = torch.tensor([-3.0, -40.0]), torch.tensor([-5.0, -1.0])
    loss = preference_alone(chosen, rejected, chosen, rejected, label_smoothing=label_smoothing)
    assert loss.item() == pytest.approx(math.log(2), rel=1e-6)


def test_the_gradient_raises_the_chosen_and_lowers_the_rejected():
    chosen, rejected = torch.tensor([-3.0]).requires_grad_(), torch.tensor([-5.0]).requires_grad_()
    preference_alone(chosen, rejected, torch.tensor([-3.0]), torch.tensor([-5.0])).backward()
    assert chosen.grad.item() == pytest.approx(-0.05)
    assert rejected.grad.item() == pytest.approx(0.05)


def test_the_preference_stays_finite_at_extreme_margins():
    far = torch.tensor([1e5, -1e5]).requires_grad_()
    zero = torch.zeros(2)
    loss = preference_alone(far, zero, zero, zero)
    assert loss.item() == pytest.approx(1e4 / 2)
    loss.backward()
    assert far.grad.isfinite().all()


def test_sft_only_imitates_the_chosen_and_ignores_the_rejected():
    sides = pairs()
    control = preference_loss(**sides, nll_weight=0.7, dpop_weight=5.0, sft_only=True)
    expected = naive(0.1, [0.0] * 4, 0.7, 5.0, False, True)
    assert control.loss.item() == pytest.approx(expected, rel=1e-5)
    chosen, rejected = torch.autograd.grad(control.loss, [sides["chosen_B"], sides["rejected_B"]], allow_unused=True)
    assert chosen.tolist() == pytest.approx([-0.7 / tokens / 4 for tokens in CHOSEN_TOKENS])
    assert rejected is None
    assert torch.equal(control.margin_B, preference_loss(**sides).margin_B)


def test_sft_only_without_likelihood_is_refused():
    with pytest.raises(ValueError, match="nll_weight"):
        preference_loss(**pairs(), nll_weight=0.0, sft_only=True)


@pytest.mark.parametrize("smoothing", [-0.1, 0.51, math.nan, torch.tensor([0.0, 0.1, 0.6, 0.0])])
def test_a_chance_of_error_beyond_a_half_is_refused(smoothing):
    with pytest.raises(ValueError, match="label_smoothing_B"):
        preference_loss(**pairs(), label_smoothing_B=smoothing)


def test_the_likelihood_penalty_acts_only_where_the_chosen_fell():
    sides = pairs()
    with_penalty = preference_loss(**sides, dpop_weight=5.0).loss
    (extra,) = torch.autograd.grad(with_penalty - preference_loss(**sides).loss, sides["chosen_B"])
    fell = [now < before for now, before in zip(CHOSEN, REFERENCE_CHOSEN, strict=True)]
    assert fell == [False, True, False, True]
    assert extra.tolist() == pytest.approx([0.0, -5 / 6 / 4, 0.0, -5 / 30 / 4], abs=1e-6)


def test_auto_normalises_only_pairs_of_very_different_length():
    plain = preference_loss(**pairs()).margin_B
    normalised = preference_loss(**pairs(), length_normalised=True).margin_B
    auto = preference_loss(**pairs(), length_normalised="auto").margin_B
    # 6/4 is exactly the limit, 30/12 is beyond it.
    assert torch.equal(auto[:3], plain[:3])
    assert auto[3] == normalised[3]
    assert (normalised != plain).tolist() == [True, True, False, True]


def test_a_longer_answer_of_the_same_quality_no_longer_wins_by_length():
    """Every token of both sides gained 0.1 nat; only their number differs."""
    sides = {
        "chosen_B": torch.tensor([-37.0]),
        "rejected_B": torch.tensor([-19.0]),
        "reference_chosen_B": torch.tensor([-40.0]),
        "reference_rejected_B": torch.tensor([-20.0]),
        "chosen_tokens_B": torch.tensor([30]),
        "rejected_tokens_B": torch.tensor([10]),
    }
    assert preference_loss(**sides).margin_B.item() == pytest.approx(0.2)
    assert preference_loss(**sides, length_normalised="auto").margin_B.item() == pytest.approx(0, abs=1e-6)


def test_metrics_describe_the_pairs():
    result = preference_loss(**pairs(), beta=0.3)
    shifts = [(c - rc, r - rr) for c, r, rc, rr in zip(
        CHOSEN, REJECTED, REFERENCE_CHOSEN, REFERENCE_REJECTED, strict=True
    )]  # fmt: skip
    assert result.margin_B.tolist() == pytest.approx([0.3 * (c - r) for c, r in shifts], rel=1e-5)
    assert result.accuracy.item() == pytest.approx(sum(c > r for c, r in shifts) / 4)
    assert 0 < result.accuracy < 1
    assert result.chosen_shift.item() == pytest.approx(sum(c for c, _ in shifts) / 4)
    assert result.chosen_logprob.item() == pytest.approx(sum(CHOSEN) / 4)
    assert result.rejected_logprob.item() == pytest.approx(sum(REJECTED) / 4)
    assert result.length_delta_tokens.item() == pytest.approx((sum(CHOSEN_TOKENS) - sum(REJECTED_TOKENS)) / 4)
    assert [name for name in PreferenceLoss._fields if getattr(result, name).requires_grad] == ["loss"]


@pytest.mark.parametrize("options", [{}, {"sft_only": True}, {"dpop_weight": 5.0, "length_normalised": "auto"}])
def test_no_pairs_give_exactly_zero(options):
    empty = {
        key: value.detach()[:0].requires_grad_() if value.is_floating_point() else value[:0]
        for key, value in pairs().items()
    }
    result = preference_loss(**empty, label_smoothing_B=torch.zeros(0), **options)
    assert result.margin_B.shape == (0,)
    assert [getattr(result, name).item() for name in PreferenceLoss._fields if name != "margin_B"] == [0.0] * 6
    result.loss.backward()
    assert empty["chosen_B"].grad.shape == (0,)


def test_an_empty_answer_and_an_extreme_margin_stay_finite():
    sides = pairs(
        chosen_B=torch.tensor([1e5, -1e5, 0.0, 0.0], requires_grad=True),
        chosen_tokens_B=torch.tensor([1, 1, 0, 0]),
        rejected_tokens_B=torch.tensor([0, 5, 0, 5]),
    )
    loss = preference_loss(**sides, dpop_weight=1.0, length_normalised=True).loss
    assert loss.isfinite()
    assert all(grad.isfinite().all() for grad in torch.autograd.grad(loss, [sides["chosen_B"], sides["rejected_B"]]))


# The channel, and the reference log-probabilities of stored pairs.


@pytest.fixture
def policy(make_model, tiny_tokens):
    return Policy("small", make_model(len(tiny_tokens.tokenizer), seed=4), tiny_tokens)


@pytest.fixture
def collator(tiny_tokens):
    return ComposerDataCollator(tiny_tokens.tokenizer.pad_token_id)


@pytest.fixture
def ragged(tiny_tokens):
    """Examples whose prompts and answers have many lengths, some pairs sharing a prompt."""
    vocabulary = len(tiny_tokens.tokenizer)
    generator = torch.Generator().manual_seed(3)

    def ids(length):
        return torch.randint(vocabulary, (length,), generator=generator).tolist()

    rows = []
    for prompt_tokens in (40, 3, 90, 17, 3, 60):
        prompt = ids(prompt_tokens)
        rows.append([PairTokens(prompt, ids(chosen), ids(rejected)) for chosen, rejected in ((1, 20), (7, 7))])
    return [TraceExample([1, 2], [0, 1], 0.0, [], pairs) for pairs in rows] + [TraceExample([1], [1], 1.0)]


def counting(policy):
    """Shapes of the inputs of every forward of the policy from now on."""
    shapes = []
    policy.model.register_forward_pre_hook(
        lambda module, args, kwargs: shapes.append(tuple(kwargs["input_ids"].shape)), with_kwargs=True
    )
    return shapes


def logprobs_of(examples):
    return [(pair.reference_chosen, pair.reference_rejected) for example in examples for pair in example.pairs]


def one_by_one(model, examples):
    found = []
    for example in examples:
        for pair in example.pairs:
            sides = []
            for answer in (pair.chosen, pair.rejected):
                with torch.no_grad():
                    logprobs = model(input_ids=torch.tensor([pair.prompt + answer])).logits[0].double().log_softmax(-1)
                start = len(pair.prompt) - 1
                sides.append(sum(logprobs[start + i, token].item() for i, token in enumerate(answer)))
            found.append(tuple(sides))
    return found


def test_options_of_the_channel_reach_the_loss(policy, examples, collator):
    batch = collator(with_reference_logprobs(policy, examples, collator))
    tokens = batch["dpo_chosen_response_mask"].sum(-1)
    likelihood = -(batch["dpo_reference_chosen_logps"] / tokens).mean().item()
    moved = {**batch, "dpo_reference_chosen_logps": batch["dpo_reference_chosen_logps"] + 2.0}

    def loss(of, **options):
        with torch.no_grad():
            return ReplayPreference(TrdpoSettings(**options)).loss(policy.model, of).item()

    assert loss(batch) == pytest.approx(math.log(2), abs=1e-5)
    assert loss(batch, nll_weight=0.5) == pytest.approx(math.log(2) + 0.5 * likelihood, rel=1e-5)
    assert loss(batch, nll_weight=1.0, sft_only=True) == pytest.approx(likelihood, rel=1e-5)
    drop = 2.0 * (1 / tokens).mean().item()
    assert loss(moved, dpop_weight=3.0) - loss(moved) == pytest.approx(3.0 * drop, rel=1e-4)
    assert abs(loss(moved, length_normalised=True) - loss(moved)) > 1e-4
    doubtful = {**moved, "dpo_label_smoothing": torch.full_like(batch["dpo_label_smoothing"], 0.4)}
    assert loss(doubtful) < loss(moved) - 1e-3


def test_a_long_prompt_is_read_once_for_all_answers_at_its_state(policy, collator, monkeypatch):
    prompt = [3 + place % 20 for place in range(40)]
    answers = [[4, 5, 6], [7], [8, 9], [10, 11, 12, 13]]
    pairs = [PairTokens(prompt, answers[0], answers[1]), PairTokens(list(prompt), answers[2], answers[3])]
    examples = [TraceExample([1], [1], 0.0, [], [pair]) for pair in pairs]
    expected = with_reference_logprobs(policy, examples, collator)
    monkeypatch.setattr(reference, "LONG_PROMPT", 40)
    seen, forward = [], policy.model.forward
    monkeypatch.setattr(
        policy.model, "forward", lambda *args, **more: seen.append(more["input_ids"].shape) or forward(*args, **more)
    )
    found = with_reference_logprobs(policy, examples, collator)
    assert seen == [(1, 39), (4, 5)]
    for one, other in zip(expected, found, strict=True):
        assert one.pairs[0].reference_chosen == pytest.approx(other.pairs[0].reference_chosen, abs=1e-4)
        assert one.pairs[0].reference_rejected == pytest.approx(other.pairs[0].reference_rejected, abs=1e-4)


@pytest.mark.parametrize("batch_tokens", [1, 200, 8192])
def test_batched_references_equal_one_by_one(policy, ragged, collator, batch_tokens):
    referenced = with_reference_logprobs(policy, ragged, collator, batch_tokens=batch_tokens)
    expected = one_by_one(policy.model, ragged)
    for got, exact in zip(logprobs_of(referenced), expected, strict=True):
        assert got == pytest.approx(exact, rel=1e-5, abs=1e-5)
    assert [replace(after, pairs=before.pairs) for before, after in zip(ragged, referenced, strict=True)] == ragged


def test_batches_keep_to_the_token_budget(policy, ragged, collator):
    shapes = counting(policy)
    with_reference_logprobs(policy, ragged, collator, batch_tokens=240)
    assert sum(rows for rows, _ in shapes) == 24
    assert all(rows * width <= 240 for rows, width in shapes)
    assert len(shapes) < 12
    real = sum(
        2 * len(pair.prompt) + len(pair.chosen) + len(pair.rejected) for example in ragged for pair in example.pairs
    )
    assert sum(rows * width for rows, width in shapes) < 1.25 * real


def test_a_pair_over_the_budget_goes_alone(policy, ragged, collator):
    shapes = counting(policy)
    with_reference_logprobs(policy, ragged, collator, batch_tokens=50)
    assert all(rows == 1 for rows, width in shapes if width > 50)
    assert any(rows > 1 for rows, _ in shapes)


def test_a_long_answer_does_not_thin_out_later_batches(policy, collator):
    long_answer, short = PairTokens([1, 2, 3], [4] * 20, [5] * 20), PairTokens([1, 2, 3, 4], [4], [5])
    shapes = counting(policy)
    pairs = [long_answer, *(replace(short, chosen=[token]) for token in (6, 7))]
    with_reference_logprobs(policy, [TraceExample([1], [1], 0.0, [], pairs)], collator, batch_tokens=23)
    assert sorted(shapes) == [(1, 23), (1, 23), (4, 5)]


def test_equal_pairs_are_computed_once(policy, ragged, collator):
    shapes = counting(policy)
    referenced = with_reference_logprobs(policy, [ragged[0]] * 5, collator)
    assert sum(rows for rows, _ in shapes) == 4
    assert logprobs_of(referenced) == logprobs_of(referenced[:1]) * 5


def test_the_cache_is_reused_to_the_bit(policy, ragged, collator, tmp_path):
    cache = tmp_path / "training" / "references.json"
    first = with_reference_logprobs(policy, ragged, collator, cache)
    shapes = counting(policy)
    again = with_reference_logprobs(policy, list(reversed(ragged)), collator, cache, batch_tokens=64)
    assert shapes == []
    assert list(reversed(again)) == first


def test_only_new_pairs_are_computed(policy, ragged, collator, tmp_path):
    cache = tmp_path / "references.json"
    with_reference_logprobs(policy, ragged[:2], collator, cache)
    shapes = counting(policy)
    changed = replace(ragged[0].pairs[0], chosen=[*ragged[0].pairs[0].chosen, 5])
    wanted = [ragged[1], replace(ragged[0], pairs=[changed])]
    got = logprobs_of(with_reference_logprobs(policy, wanted, collator, cache))
    assert sum(rows for rows, _ in shapes) == 2
    for pair, exact in zip(got, one_by_one(policy.model, wanted), strict=True):
        assert pair == pytest.approx(exact, rel=1e-5)


def nudge_weight(policy):
    with torch.no_grad():
        policy.model.model.layers[0].self_attn.q_proj.weight[0, 0] += 1e-6


def change_template(policy):
    policy.tokenizer.chat_template += " "


def add_token(policy):
    policy.tokenizer.add_tokens(["<|new|>"])


@pytest.mark.parametrize("change", [nudge_weight, change_template, add_token])
def test_another_policy_computes_anew(policy, ragged, collator, tmp_path, change):
    own = Policy("small", policy.model, ChatTokens(copy.deepcopy(policy.tokenizer)))
    cache = tmp_path / "references.json"
    before = policy_fingerprint(own)
    with_reference_logprobs(own, ragged[:1], collator, cache)
    assert policy_fingerprint(own) == before
    change(own)
    shapes = counting(own)
    with_reference_logprobs(own, ragged[:1], collator, cache)
    assert policy_fingerprint(own) != before
    assert sum(rows for rows, _ in shapes) == 4
    assert json.loads(cache.read_text())["fingerprint"] == policy_fingerprint(own)


def test_swapped_weights_of_one_shape_change_the_fingerprint(policy):
    before = policy_fingerprint(policy)
    first, second = (layer.self_attn.o_proj.weight for layer in policy.model.model.layers)
    kept = first.detach().clone()
    with torch.no_grad():
        first.copy_(second)
        second.copy_(kept)
    assert policy_fingerprint(policy) != before


def test_precision_is_part_of_the_fingerprint(policy, ragged, collator):
    plain = policy_fingerprint(policy)
    exact = logprobs_of(with_reference_logprobs(policy, ragged[:1], collator))
    with torch.autocast("cpu", torch.bfloat16):
        assert policy_fingerprint(policy) != plain
        assert logprobs_of(with_reference_logprobs(policy, ragged[:1], collator)) != exact
    policy.model.to(torch.bfloat16)
    assert policy_fingerprint(policy) != plain


@pytest.mark.parametrize("content", ["", "{", "[]", "null", '{"version": 1}', '{"version": 1, "fingerprint": "x"}'])
def test_a_damaged_cache_is_replaced(policy, ragged, collator, tmp_path, content):
    cache = tmp_path / "references.json"
    cache.write_text(content)
    first = with_reference_logprobs(policy, ragged[:1], collator, cache)
    assert logprobs_of(first)[0] == pytest.approx(one_by_one(policy.model, ragged[:1])[0], rel=1e-5)
    shapes = counting(policy)
    assert with_reference_logprobs(policy, ragged[:1], collator, cache) == first
    assert shapes == []


@pytest.mark.parametrize("spoil", [{"logprobs": {"k": [1]}}, {"logprobs": []}, {"version": 0}])
def test_a_cache_with_the_right_fingerprint_but_a_wrong_content_is_replaced(policy, ragged, collator, tmp_path, spoil):
    cache = tmp_path / "references.json"
    first = with_reference_logprobs(policy, ragged[:1], collator, cache)
    cache.write_text(json.dumps(json.loads(cache.read_text()) | spoil))
    assert with_reference_logprobs(policy, ragged[:1], collator, cache) == first
    assert json.loads(cache.read_text())["version"] == 1


def test_no_pairs_touch_neither_model_nor_file(policy, collator, tmp_path):
    cache = tmp_path / "references.json"
    shapes = counting(policy)
    bare = [TraceExample([1, 2], [0, 1], 0.5)]
    assert with_reference_logprobs(policy, bare, collator, cache) == bare
    assert shapes == []
    assert not cache.exists()


def test_dropout_is_off_and_the_mode_is_given_back(policy, ragged, collator):
    expected = logprobs_of(with_reference_logprobs(policy, ragged, collator))
    for layer in policy.model.model.layers:
        layer.self_attn.attention_dropout = 0.5
    policy.model.train()
    assert logprobs_of(with_reference_logprobs(policy, ragged, collator)) == expected
    assert policy.model.training


def test_broken_weights_are_reported_and_not_stored(policy, ragged, collator, tmp_path):
    cache = tmp_path / "references.json"
    with torch.no_grad():
        policy.model.lm_head.weight[3] = math.nan
    with pytest.raises(RecomposeError, match="log-probabilities"):
        with_reference_logprobs(policy, ragged[:1], collator, cache)
    assert not cache.exists()
