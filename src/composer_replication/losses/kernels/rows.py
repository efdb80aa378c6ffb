"""Divergence of each row of a chunk of logits, and its gradient with respect to the student's logits, in plain torch.

With `a` and `b` the log-probabilities of student and teacher and `g` = ∂D/∂a, the gradient with respect to the
student's logits is (g − softmax(a)·Σg) / temperature. A log-probability at the floor has no gradient.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from ..divergence import LOGPROB_FLOOR, clip_factor, logprob_divergence, top_union, with_tail

# Float tensors of the chunk's size that are alive at once, the two of logits included.
BUFFERS = 8


class DivergenceRule(NamedTuple):
    """Which divergence, as `token_divergence` and `generalized_jsd_loss` define it."""

    beta: float
    temperature: float
    top_k: int | None
    token_clip: float | None


class Rows(Protocol):
    """Overwrites both logits. The gradient may lie in the student's memory; without a dtype for it there is none."""

    def __call__(
        self,
        student_CV: Tensor,
        teacher_CV: Tensor,
        weights_C: Tensor,
        rule: DivergenceRule,
        gradient: torch.dtype | None,
    ) -> tuple[Tensor, Tensor | None]: ...


def torch_rows(
    student_CV: Tensor, teacher_CV: Tensor, weights_C: Tensor, rule: DivergenceRule, gradient: torch.dtype | None
) -> tuple[Tensor, Tensor | None]:
    for logits_CV in (student_CV, teacher_CV):
        _to_logprobs(logits_CV.div_(rule.temperature))
    if rule.top_k is not None and rule.top_k < student_CV.shape[-1]:
        divergence_C, logits_gradient_CV = _top_k_gradient(student_CV, teacher_CV, rule.top_k, rule.beta)
    else:
        divergence_C, by_logprob_CV = _gradient_by_logprob(student_CV, teacher_CV, rule.beta)
        logits_gradient_CV = by_logprob_CV.sub_(student_CV.exp_().mul_(by_logprob_CV.sum(-1, keepdim=True)))
    if gradient is None:
        return divergence_C, None
    factor_C = weights_C / rule.temperature
    if rule.token_clip is not None:
        factor_C = factor_C * clip_factor(divergence_C, rule.token_clip)
    return divergence_C, logits_gradient_CV.mul_(factor_C[:, None]).to(gradient)


def _to_logprobs(logits_CV: Tensor) -> None:
    # The largest goes first: the log of the sum would be rounded away beside a large logit.
    logits_CV.sub_(logits_CV.amax(-1, keepdim=True))
    logits_CV.sub_(logits_CV.exp().sum(-1, keepdim=True).log_()).clamp_(min=LOGPROB_FLOOR)


def _gradient_by_logprob(student_CV: Tensor, teacher_CV: Tensor, beta: float) -> tuple[Tensor, Tensor]:
    """D, and its derivative by the student's log-probabilities up to a multiple of its probabilities."""
    if beta == 0:
        gap_CV = teacher_CV - student_CV
        mass_CV = teacher_CV.exp_()
        divergence_C = gap_CV.mul_(mass_CV).sum(-1)
        return divergence_C, mass_CV.neg_().masked_fill_(student_CV <= LOGPROB_FLOOR, 0)
    if beta == 1:
        gradient_CV = (student_CV - teacher_CV).mul_(student_CV.exp())
        return gradient_CV.sum(-1), gradient_CV
    gap_CV = teacher_CV - student_CV
    excess_CV = _mixture_over_student(gap_CV, beta)
    teacher_part_C = teacher_CV.exp_().mul_(gap_CV.sub_(excess_CV)).sum(-1)
    gradient_CV = excess_CV.mul_(student_CV.exp()).mul_(beta - 1)
    return beta * teacher_part_C + gradient_CV.sum(-1), gradient_CV


def _mixture_over_student(gap_CV: Tensor, beta: float) -> Tensor:
    """log(m / p) for gap = log(q / p) and m = (1 − beta)·p + beta·q, exact near 0 and without overflow."""
    small_CV = gap_CV.abs().neg_().expm1_()
    small_CV.mul_(torch.where(gap_CV > 0, gap_CV.new_tensor(1 - beta), beta)).log1p_()
    return small_CV.add_(gap_CV.clamp(min=0))


def _top_k_gradient(student_CV: Tensor, teacher_CV: Tensor, top_k: int, beta: float) -> tuple[Tensor, Tensor]:
    ids_CK, repeated_CK = top_union(student_CV, teacher_CV, top_k)
    teacher_CK = with_tail(teacher_CV.gather(-1, ids_CK), repeated_CK)
    with torch.enable_grad():
        kept_CK = student_CV.gather(-1, ids_CK).requires_grad_()
        divergence_C = logprob_divergence(with_tail(kept_CK, repeated_CK), teacher_CK, beta)
        (by_logprob_CK,) = torch.autograd.grad(divergence_C.sum(), kept_CK)
    by_logprob_CK.masked_fill_(kept_CK.detach() <= LOGPROB_FLOOR, 0)
    gradient_CV = student_CV.exp_().mul_(-by_logprob_CK.sum(-1, keepdim=True))
    return divergence_C.detach(), gradient_CV.scatter_add_(-1, ids_CK, by_logprob_CK)
