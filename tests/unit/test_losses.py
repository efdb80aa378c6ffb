"""Divergence losses against naive float64 references, and the properties training relies on."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from composer_replication.losses import generalized_jsd_loss, sequence_logprobs, token_divergence

BETAS = (0.0, 0.3, 0.5, 1.0)


def draw(*shape: int, seed: int = 0, scale: float = 2.0) -> Tensor:
    return scale * torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def naive_divergence(student: Tensor, teacher: Tensor, beta: float, temperature: float = 1.0) -> Tensor:
    """Probability by probability, in float64."""
    s = (student.double() / temperature).softmax(-1)
    t = (teacher.double() / temperature).softmax(-1)

    def kl(p: Tensor, q: Tensor) -> Tensor:
        return (p * (p / q).log()).sum(-1)

    if beta == 0:
        return kl(t, s)
    if beta == 1:
        return kl(s, t)
    mixture = (1 - beta) * s + beta * t
    return beta * kl(t, mixture) + (1 - beta) * kl(s, mixture)


def gradient(loss: Tensor, of: Tensor) -> Tensor:
    return torch.autograd.grad(loss, of, retain_graph=True)[0]


@pytest.mark.parametrize("beta", BETAS)
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_value_and_gradient_equal_the_naive_reference(beta, temperature):
    student, teacher = draw(3, 5, 11, seed=1).requires_grad_(), draw(3, 5, 11, seed=2)
    exact = student.detach().double().requires_grad_()
    expected = naive_divergence(exact, teacher, beta, temperature)
    per_token = generalized_jsd_loss(student, teacher, beta=beta, temperature=temperature, reduction="none")
    torch.testing.assert_close(per_token.double(), expected, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(
        gradient(per_token.sum(), student).double(), gradient(expected.sum(), exact), rtol=1e-4, atol=1e-6
    )


@pytest.mark.parametrize("beta", BETAS)
def test_reductions_count_only_labelled_tokens(beta):
    student, teacher = draw(2, 4, 7, seed=3), draw(2, 4, 7, seed=4)
    labels = torch.tensor([[-100, 5, -100, 0], [2, -100, -100, -100]])
    kept = labels != -100
    expected = naive_divergence(student, teacher, beta)
    none = generalized_jsd_loss(student, teacher, labels, beta=beta, reduction="none")
    assert none.shape == labels.shape
    assert (none[~kept] == 0).all()
    torch.testing.assert_close(none[kept].double(), expected[kept], rtol=1e-5, atol=1e-6)
    total = generalized_jsd_loss(student, teacher, labels, beta=beta, reduction="sum")
    mean = generalized_jsd_loss(student, teacher, labels, beta=beta)
    assert total.item() == pytest.approx(expected[kept].sum().item(), rel=1e-5)
    assert mean.item() == pytest.approx(expected[kept].sum().item() / 3, rel=1e-5)


def test_label_zero_is_a_token_not_padding():
    student, teacher = draw(1, 2, 5, seed=5), draw(1, 2, 5, seed=6)
    zeros = torch.zeros(1, 2, dtype=torch.long)
    assert torch.equal(generalized_jsd_loss(student, teacher, zeros), generalized_jsd_loss(student, teacher))


@pytest.mark.parametrize("beta", BETAS)
@pytest.mark.parametrize("reduction", ["batchmean", "sum", "none"])
@pytest.mark.parametrize("top_k", [None, 2])
def test_all_masked_is_exactly_zero_with_zero_gradient(beta, reduction, top_k):
    student, teacher = draw(2, 3, 7, seed=7).requires_grad_(), draw(2, 3, 7, seed=8)
    labels = torch.full((2, 3), -100)
    loss = generalized_jsd_loss(student, teacher, labels, beta=beta, reduction=reduction, top_k=top_k)
    assert (loss == 0).all()
    assert torch.equal(gradient(loss.sum(), student), torch.zeros_like(student))


@pytest.mark.parametrize("beta", BETAS)
@pytest.mark.parametrize("top_k", [None, 3])
def test_identical_logits_have_no_divergence(beta, top_k):
    logits = draw(4, 50, seed=9, scale=5)
    assert generalized_jsd_loss(logits, logits, beta=beta, top_k=top_k).abs() < 1e-6


def test_jensen_shannon_is_bounded_by_log_2():
    disjoint = torch.tensor([[200.0, 0.0, -200.0], [0.0, 200.0, -200.0]])
    divergence = token_divergence(disjoint, disjoint.flip(0), 0.5)
    assert divergence.tolist() == pytest.approx([math.log(2)] * 2, abs=1e-6)
    random = token_divergence(draw(200, 9, seed=10, scale=20), draw(200, 9, seed=11, scale=20), 0.5)
    assert random.max() <= math.log(2) + 1e-6
    assert random.max() > 0.6


@pytest.mark.parametrize("beta", BETAS)
@pytest.mark.parametrize("top_k", [None, 2])
def test_no_gradient_reaches_the_teacher(beta, top_k):
    student, teacher = draw(3, 7, seed=12).requires_grad_(), draw(3, 7, seed=13).requires_grad_()
    generalized_jsd_loss(student, teacher, beta=beta, top_k=top_k).backward()
    assert teacher.grad is None
    assert student.grad.abs().sum() > 0


@pytest.mark.parametrize("beta", BETAS)
def test_gradient_is_zero_at_masked_positions_only(beta):
    student, teacher = draw(2, 3, 7, seed=14).requires_grad_(), draw(2, 3, 7, seed=15)
    labels = torch.tensor([[1, -100, 1], [-100, 1, -100]])
    grad = gradient(generalized_jsd_loss(student, teacher, labels, beta=beta), student)
    assert torch.equal(grad.abs().sum(-1) > 0, labels != -100)


@pytest.mark.parametrize("beta", BETAS)
@pytest.mark.parametrize("top_k", [11, 12, 1000])
def test_top_k_of_the_whole_vocabulary_is_the_full_divergence(beta, top_k):
    student, teacher = draw(5, 11, seed=16), draw(5, 11, seed=17)
    full = generalized_jsd_loss(student, teacher, beta=beta, reduction="none")
    assert torch.equal(generalized_jsd_loss(student, teacher, beta=beta, reduction="none", top_k=top_k), full)


@pytest.mark.parametrize("beta", BETAS)
def test_top_k_is_the_union_of_both_sides_with_one_tail(beta):
    student = torch.tensor([[0.5, 0.3, 0.1, 0.06, 0.04]]).log()
    teacher = torch.tensor([[0.1, 0.1, 0.6, 0.15, 0.05]]).log()
    merged_student = torch.tensor([[0.5, 0.1, 0.4]]).log()
    merged_teacher = torch.tensor([[0.1, 0.6, 0.3]]).log()
    expected = naive_divergence(merged_student, merged_teacher, beta)
    torch.testing.assert_close(
        token_divergence(student, teacher, beta, top_k=1).double(), expected, rtol=1e-4, atol=1e-6
    )


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 10**6),
    vocabulary=st.integers(2, 40),
    k=st.integers(1, 40),
    beta=st.sampled_from(BETAS),
    scale=st.floats(0.01, 6),
)
def test_merging_the_tail_never_raises_the_divergence(seed, vocabulary, k, beta, scale):
    student, teacher = draw(4, vocabulary, seed=seed, scale=scale), draw(4, vocabulary, seed=seed + 1, scale=scale)
    full = token_divergence(student, teacher, beta)
    merged = token_divergence(student, teacher, beta, top_k=k)
    assert (merged <= full + 1e-5 + 1e-5 * full).all()
    assert (merged >= -1e-6).all()


@pytest.mark.parametrize("beta", BETAS)
def test_token_clip_caps_each_token_and_keeps_its_direction(beta):
    clip = 0.05
    student, teacher = draw(6, 9, seed=18).requires_grad_(), draw(6, 9, seed=19)
    teacher[0] = student.detach()[0] + 0.01 * teacher[0]
    plain = generalized_jsd_loss(student, teacher, beta=beta, reduction="none")
    clipped = generalized_jsd_loss(student, teacher, beta=beta, reduction="none", token_clip=clip)
    assert plain[0] < clip < plain[1:].min()
    assert torch.equal(clipped[0], plain[0])
    assert clipped[1:].tolist() == pytest.approx([clip] * 5, rel=1e-5)
    before, after = gradient(plain.sum(), student), gradient(clipped.sum(), student)
    assert F.cosine_similarity(before, after).tolist() == pytest.approx([1.0] * 6, abs=1e-5)
    scale = (clip / plain.detach()).clamp(max=1)
    torch.testing.assert_close(after, before * scale[:, None], rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("beta", BETAS)
@pytest.mark.parametrize("token_clip", [None, 1.0, 0.1, 0.01])
@pytest.mark.parametrize("top_k", [None, 1])
def test_a_step_moves_probability_from_the_wrong_token_to_the_right_one(beta, token_clip, top_k):
    wrong, right = 0, 1
    student = torch.tensor([[0.8, 0.1, 0.05, 0.05]]).log().requires_grad_()
    teacher = torch.tensor([[0.1, 0.8, 0.05, 0.05]]).log()
    grad = gradient(generalized_jsd_loss(student, teacher, beta=beta, token_clip=token_clip, top_k=top_k), student)
    before = student.detach().softmax(-1)[0]
    after = (student - 1e-2 * grad / grad.norm()).detach().softmax(-1)[0]
    assert after[wrong] < before[wrong]
    assert after[right] > before[right]


@pytest.mark.parametrize("beta", BETAS)
@pytest.mark.parametrize("top_k", [None, 2])
@pytest.mark.parametrize("token_clip", [None, 0.1])
def test_extreme_logits_give_finite_loss_and_gradient(beta, top_k, token_clip):
    student = torch.tensor([[1e4, -1e4, 0.0, 3.0], [-1e4, 1e4, 0.0, 1.0], [1e4, 1e4, -1e4, -1e4]]).requires_grad_()
    teacher = torch.tensor([[-1e4, 1e4, 0.0, 3.0], [-1e4, 1e4, 0.0, 1.0], [-1e4, -1e4, 1e4, 1e4]])
    loss = generalized_jsd_loss(student, teacher, beta=beta, top_k=top_k, token_clip=token_clip, reduction="none")
    assert loss.isfinite().all()
    assert gradient(loss.sum(), student).isfinite().all()


@pytest.mark.parametrize("beta", BETAS)
def test_a_vocabulary_entry_ruled_out_on_both_sides_changes_nothing(beta):
    ruled_out = torch.full((3, 1), -torch.inf)
    student, teacher = draw(3, 5, seed=20).requires_grad_(), draw(3, 5, seed=21)
    short = generalized_jsd_loss(student, teacher, beta=beta)
    long = generalized_jsd_loss(torch.cat([student, ruled_out], 1), torch.cat([teacher, ruled_out], 1), beta=beta)
    torch.testing.assert_close(long, short)
    torch.testing.assert_close(gradient(long, student), gradient(short, student))


def test_half_precision_logits_are_compared_in_float32():
    student, teacher = draw(4, 30, seed=22).bfloat16(), draw(4, 30, seed=23).bfloat16()
    loss = generalized_jsd_loss(student, teacher)
    assert loss.dtype == torch.float32
    assert loss.item() == pytest.approx(naive_divergence(student, teacher, 0.5).mean().item(), rel=1e-5)


def test_sequence_logprobs_count_only_masked_tokens():
    logits = draw(1, 5, 6, seed=24)
    ids = torch.tensor([[3, 1, 4, 1, 5]])
    mask = torch.tensor([[0, 0, 1, 0, 1]])
    probabilities = logits.double().softmax(-1)[0]
    expected = math.log(probabilities[1, 4]) + math.log(probabilities[3, 5])
    assert sequence_logprobs(logits, ids, mask).item() == pytest.approx(expected, rel=1e-5)
    assert sequence_logprobs(logits, ids, torch.zeros_like(mask)).item() == 0


@pytest.mark.parametrize("change", [{"beta": 1.5}, {"temperature": -1.0}, {"top_k": 0}, {"token_clip": 0.0}])
def test_a_divergence_of_settings_that_make_no_sense_is_refused(change):
    """-1 would turn both distributions over, and 0 of 5 tokens are always alike."""
    with pytest.raises(ValueError, match=next(iter(change))):
        generalized_jsd_loss(draw(3, 5), draw(3, 5, seed=1), **change)


def test_sequence_logprobs_do_not_depend_on_padding():
    logits, ids = draw(2, 4, 6, seed=25), torch.tensor([[3, 1, 4, 1], [0, 2, 2, 5]])
    mask = torch.tensor([[0, 0, 1, 1]] * 2)
    padded = torch.cat([logits, draw(2, 3, 6, seed=26, scale=50)], 1)
    padded_ids, padded_mask = F.pad(ids, (0, 3), value=2), F.pad(mask, (0, 3))
    torch.testing.assert_close(sequence_logprobs(padded, padded_ids, padded_mask), sequence_logprobs(logits, ids, mask))
