"""Divergence between a hinted teacher and its student, per token.

Deviates from the origin: `token_clip` scales a whole token's divergence. The origin clamps each vocabulary entry, which
can push the right token down; that form is not offered. `beta` 0 is KL(teacher‖student) and 1 is KL(student‖teacher).
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

IGNORED_LABEL = -100
SMALLEST_TAIL = 1e-7
# Finite, so that a token ruled out on both sides gives 0 and not NaN; its probability is 0 in float32 all the same.
LOGPROB_FLOOR = -1e4


def generalized_jsd_loss(
    student_logits: Tensor,
    teacher_logits: Tensor,
    labels: Tensor | None = None,
    beta: float = 0.5,
    temperature: float = 1.0,
    reduction: Literal["batchmean", "sum", "none"] = "batchmean",
    top_k: int | None = None,
    token_clip: float | None = None,
) -> Tensor:
    """Generalised Jensen-Shannon divergence over the tokens whose label is not -100. No gradient reaches the teacher.

    Args:
        student_logits: Of any shape that ends with the vocabulary; the teacher's have the same.
        labels: Token ids, -100 where a position does not count; None: all count.
        reduction: `batchmean` divides the sum by the number of tokens that count; without any it is exactly 0. `none`
            returns one value per position, 0 where the label is ignored.
    """
    check_divergence(beta, temperature, top_k, token_clip)
    keep = torch.ones(student_logits.shape[:-1], dtype=torch.bool, device=student_logits.device)
    if labels is not None:
        keep = labels != IGNORED_LABEL
    divergence_N = token_divergence(student_logits[keep], teacher_logits[keep], beta, temperature, top_k)
    if token_clip is not None:
        divergence_N = divergence_N * clip_factor(divergence_N, token_clip)
    if reduction == "none":
        return divergence_N.new_zeros(keep.shape).masked_scatter(keep, divergence_N)
    total = divergence_N.sum()
    return total if reduction == "sum" else total / max(1, divergence_N.numel())


def token_divergence(
    student_logits_NV: Tensor,
    teacher_logits_NV: Tensor,
    beta: float,
    temperature: float = 1.0,
    top_k: int | None = None,
) -> Tensor:
    """One divergence per row."""
    student_NV = (_widened(student_logits_NV) / temperature).log_softmax(-1).clamp(min=LOGPROB_FLOOR)
    teacher_NV = (_widened(teacher_logits_NV.detach()) / temperature).log_softmax(-1).clamp(min=LOGPROB_FLOOR)
    if top_k is not None and top_k < student_NV.shape[-1]:
        ids_NK, repeated_NK = top_union(student_NV, teacher_NV, top_k)
        student_NV = with_tail(student_NV.gather(-1, ids_NK), repeated_NK)
        teacher_NV = with_tail(teacher_NV.gather(-1, ids_NK), repeated_NK)
    return logprob_divergence(student_NV, teacher_NV, beta)


def logprob_divergence(student_NV: Tensor, teacher_NV: Tensor, beta: float) -> Tensor:
    """One divergence per row of log-probabilities."""
    if beta == 0:
        return _kl(teacher_NV, student_NV)
    if beta == 1:
        return _kl(student_NV, teacher_NV)
    weight = student_NV.new_tensor(beta)
    mixture_NV = torch.logaddexp(student_NV + (1 - weight).log(), teacher_NV + weight.log())
    return beta * _kl(teacher_NV, mixture_NV) + (1 - beta) * _kl(student_NV, mixture_NV)


def check_divergence(beta: float, temperature: float, top_k: int | None, token_clip: float | None) -> None:
    if not 0 <= beta <= 1:
        raise ValueError(f"beta must be between 0 and 1, not {beta}")
    if not temperature > 0:
        raise ValueError(f"temperature must be positive, not {temperature}")
    if top_k is not None and top_k < 1:
        raise ValueError(f"top_k must be at least 1, not {top_k}")
    if token_clip is not None and not token_clip > 0:
        raise ValueError(f"token_clip must be positive, not {token_clip}")


def clip_factor(divergence_N: Tensor, token_clip: float) -> Tensor:
    """min(1, token_clip / D), without a gradient."""
    return token_clip / divergence_N.detach().clamp(min=token_clip)


def top_union(student_NV: Tensor, teacher_NV: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Ids of both top-k sets, 2k per row, and which of them repeat another one."""
    ids_NK = torch.cat([student_NV.topk(k).indices, teacher_NV.topk(k).indices], -1).sort(-1).values
    repeated_NK = torch.zeros_like(ids_NK, dtype=torch.bool)
    repeated_NK[:, 1:] = ids_NK[:, 1:] == ids_NK[:, :-1]
    return ids_NK, repeated_NK


def with_tail(kept_NK: Tensor, repeated_NK: Tensor) -> Tensor:
    """Kept log-probabilities, each once, and one more for all the rest of the vocabulary."""
    kept_NK = kept_NK.masked_fill(repeated_NK, LOGPROB_FLOOR)
    tail_N1 = (1 - kept_NK.exp().sum(-1, keepdim=True)).clamp(min=SMALLEST_TAIL).log()
    return torch.cat([kept_NK, tail_N1], -1)


def _widened(logits_NV: Tensor) -> Tensor:
    return logits_NV if logits_NV.dtype == torch.float64 else logits_NV.float()


def _kl(p_NV: Tensor, q_NV: Tensor) -> Tensor:
    return (p_NV.exp() * (p_NV - q_NV)).sum(-1)
