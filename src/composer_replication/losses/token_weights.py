"""How much a loss pulls at each token: the Euclidean norm of its gradient at the logits that predict the token."""

from __future__ import annotations

import torch
from torch import Tensor

from .divergence import clip_factor, token_divergence


def logprob_token_weights(logits_NV: Tensor, labels_N: Tensor, slopes_N: Tensor, temperature: float = 1.0) -> Tensor:
    """How much a loss pulls at each token, where its slope at each label's log-probability is known as `slopes_N`:
    |slope| · ‖label − probabilities‖."""
    probabilities_NV = (logits_NV / temperature).softmax(-1)
    own_N = probabilities_NV.gather(-1, labels_N[:, None])[:, 0]
    square_N = probabilities_NV.square().sum(-1) - 2 * own_N + 1
    return slopes_N.abs() * square_N.clamp(min=0).sqrt() / temperature


def divergence_token_weights(
    student_NV: Tensor,
    teacher_NV: Tensor,
    weights_N: Tensor,
    *,
    beta: float,
    temperature: float = 1.0,
    top_k: int | None = None,
    token_clip: float | None = None,
) -> Tensor:
    """How much the sum of divergences between student and teacher logits, weighted by `weights_N`, pulls at each
    token."""
    logits_NV = student_NV.detach().requires_grad_()
    with torch.enable_grad():
        divergence_N = token_divergence(logits_NV, teacher_NV, beta, temperature, top_k)
        if token_clip is not None:
            divergence_N = divergence_N * clip_factor(divergence_N, token_clip)
        (gradient_NV,) = torch.autograd.grad((weights_N * divergence_N).sum(), logits_NV)
    return gradient_NV.norm(dim=-1)
