"""Preference losses for any pairs: what may not matter does not, and every term pulls the way it should."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from composer_replication.losses import preference_loss, sequence_logprobs

VOCABULARY = 11
any_case = settings(max_examples=80, deadline=None, derandomize=True)
logprob = st.floats(-60, -0.01)
pair = st.tuples(logprob, logprob, logprob, logprob, st.integers(1, 40), st.integers(1, 40), st.floats(0, 0.5))
some_pairs = st.lists(pair, min_size=1, max_size=9)
options = st.fixed_dictionaries({
    "beta": st.floats(0.01, 2),
    "nll_weight": st.floats(0.1, 2),
    "dpop_weight": st.sampled_from([0.0, 5.0]),
    "length_normalised": st.sampled_from([False, True, "auto"]),
    "sft_only": st.booleans(),
})  # fmt: skip
NAMES = (
    "chosen_B", "rejected_B", "reference_chosen_B", "reference_rejected_B", "chosen_tokens_B", "rejected_tokens_B",
    "label_smoothing_B",
)  # fmt: skip


def columns(pairs, **replaced) -> dict[str, Tensor]:
    made = {
        name: torch.tensor(values, dtype=torch.float64 if isinstance(values[0], float) else torch.long)
        for name, values in zip(NAMES, zip(*pairs, strict=True), strict=True)
    }
    return {**made, **replaced}


def with_grad(columns: dict[str, Tensor]) -> dict[str, Tensor]:
    return {**columns, **{side: columns[side].clone().requires_grad_() for side in ("chosen_B", "rejected_B")}}


def gradients(loss: Tensor, sides: dict[str, Tensor]) -> list[Tensor]:
    found = torch.autograd.grad(loss, [sides["chosen_B"], sides["rejected_B"]], allow_unused=True)
    return [torch.zeros_like(sides["chosen_B"]) if grad is None else grad for grad in found]


@any_case
@given(some_pairs, options, st.randoms(use_true_random=False))
def test_the_order_of_pairs_does_not_matter(pairs, choice, rng):
    order = rng.sample(range(len(pairs)), len(pairs))
    plain = preference_loss(**columns(pairs), **choice)
    shuffled = preference_loss(**columns([pairs[number] for number in order]), **choice)
    for name in plain._fields:
        expected = plain.margin_B[order] if name == "margin_B" else getattr(plain, name)
        torch.testing.assert_close(getattr(shuffled, name), expected)


@any_case
@given(some_pairs, options, st.integers(1, 8))
def test_micro_batches_sum_to_the_batch(pairs, choice, size):
    whole = with_grad(columns(pairs))
    expected = gradients(preference_loss(**whole, **choice).loss * len(pairs), whole)
    total, parts = 0.0, []
    for start in range(0, len(pairs), size):
        part = with_grad(columns(pairs[start : start + size]))
        loss = preference_loss(**part, **choice).loss * len(part["chosen_B"])
        total += loss.item()
        parts.append(gradients(loss, part))
    assert math.isclose(total, (preference_loss(**whole, **choice).loss * len(pairs)).item(), rel_tol=1e-9)
    for side, grad in enumerate(expected):
        torch.testing.assert_close(torch.cat([part[side] for part in parts]), grad)


@any_case
@given(some_pairs, st.floats(0.01, 2), st.sampled_from([False, True, "auto"]))
def test_swapping_the_sides_flips_the_margin(pairs, beta, normalised):
    swapped = [(r, c, rr, rc, rt, ct, *rest) for c, r, rc, rr, ct, rt, *rest in pairs]
    choice = {"beta": beta, "length_normalised": normalised}
    margins = [preference_loss(**columns(some), **choice).margin_B for some in (pairs, swapped)]
    torch.testing.assert_close(margins[0], -margins[1])


@any_case
@given(some_pairs, st.floats(0.0, 0.5), options)
def test_one_smoothing_for_all_is_that_smoothing_for_each(pairs, smoothing, choice):
    each = columns(pairs, label_smoothing_B=torch.full((len(pairs),), smoothing, dtype=torch.float64))
    scalar = {**each, "label_smoothing_B": smoothing}
    torch.testing.assert_close(preference_loss(**each, **choice).loss, preference_loss(**scalar, **choice).loss)


@any_case
@given(some_pairs, st.floats(0.01, 2))
def test_at_the_reference_a_coin_flip_teaches_nothing(pairs, beta):
    """A pair that is wrong half of the time has its optimum at margin 0."""
    sides = with_grad(columns([(c, r, c, r, *rest) for c, r, _, _, *rest in pairs]))
    loss = preference_loss(**{**sides, "label_smoothing_B": 0.5}, beta=beta, nll_weight=0.0).loss
    assert all((grad == 0).all() for grad in gradients(loss, sides))


@any_case
@given(pair, st.floats(0.01, 0.5), st.floats(0.05, 1))
def test_smoothing_holds_the_margin_at_its_log_odds(one, smoothing, beta):
    """Beyond log((1-e)/e) the gradient turns round, so a doubtful preference is never pushed to certainty."""
    optimum = math.log((1 - smoothing) / smoothing)
    for excess in (-0.5, 0.0, 0.5):
        shift = (optimum + excess) / beta
        sides = with_grad(columns([(-5.0 + shift, -7.0, -5.0, -7.0, *one[4:6], smoothing)]))
        result = preference_loss(**sides, beta=beta, nll_weight=0.0)
        chosen, rejected = (grad.item() for grad in gradients(result.loss, sides))
        assert math.isclose(chosen, -rejected, abs_tol=1e-12)
        assert abs(chosen) < 1e-9 if excess == 0 else math.copysign(1, chosen) == math.copysign(1, excess)


@any_case
@given(some_pairs, options)
def test_the_likelihood_always_raises_the_chosen(pairs, choice):
    """The likelihood's own part of the gradient, whatever else is asked for."""
    sides = with_grad(columns(pairs))
    weights = {**choice, "sft_only": False}
    more, none = (preference_loss(**sides, **{**weights, "nll_weight": weight}).loss for weight in (1.0, 0.0))
    chosen, rejected = gradients(more - none, sides)
    torch.testing.assert_close(chosen, -1 / sides["chosen_tokens_B"].double() / len(pairs), atol=1e-12, rtol=1e-9)
    assert rejected.abs().max() < 1e-12
    assert (chosen < 0).all()


@any_case
@given(some_pairs, options)
def test_a_step_down_the_gradient_lowers_the_loss(pairs, choice):
    sides = with_grad(columns(pairs))
    loss = preference_loss(**sides, **choice).loss
    grads = gradients(loss, sides)
    moved = {side: sides[side] - 1e-4 * grad for side, grad in zip(("chosen_B", "rejected_B"), grads, strict=True)}
    assert preference_loss(**{**sides, **moved}, **choice).loss <= loss


@any_case
@given(st.integers(0, 10**6), st.lists(st.tuples(st.integers(1, 6), st.integers(1, 6)), min_size=1, max_size=5),
       st.integers(0, 7), options)  # fmt: skip
def test_padding_changes_neither_loss_nor_gradient(seed, lengths, padding, choice):
    """From logits to loss: more columns of any content, behind the mask."""
    generator = torch.Generator().manual_seed(seed)
    width = 1 + max(max(pair) for pair in lengths)
    losses, grads = [], []
    logits = torch.randn(2, len(lengths), width, VOCABULARY, generator=generator, dtype=torch.float64)
    ids = torch.randint(VOCABULARY, (2, len(lengths), width), generator=generator)
    noise = 30 * torch.randn(2, len(lengths), padding, VOCABULARY, generator=generator, dtype=torch.float64)
    for extra in (0, padding):
        leaf = logits.clone().requires_grad_()
        rows = torch.cat([leaf, noise], 2) if extra else leaf
        masks = torch.zeros(2, len(lengths), width + extra, dtype=torch.long)
        for row, pair_lengths in enumerate(lengths):
            for side, length in enumerate(pair_lengths):
                masks[side, row, 1 : 1 + length] = 1
        padded = F.pad(ids, (0, extra), value=3)
        sides = [sequence_logprobs(rows[side], padded[side], masks[side]) for side in (0, 1)]
        reference = torch.full((len(lengths),), -2.0)
        loss = preference_loss(
            *sides, reference, reference, chosen_tokens_B=masks[0].sum(-1), rejected_tokens_B=masks[1].sum(-1), **choice
        ).loss
        losses.append(loss)
        grads.append(torch.autograd.grad(loss, leaf)[0])
    torch.testing.assert_close(losses[0], losses[1])
    torch.testing.assert_close(grads[0], grads[1])
