"""Log-probabilities of given tokens from hidden states; logits exist for one chunk of tokens at a time.

The gradient depends on one upstream factor per token, so the backward pass projects once more instead of keeping
logits: four products in all, three with a frozen head.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from .kernels.chunking import token_chunks
from .kernels.products import HeadGradients, VocabularyHead, product_dtype

# Logits, a temporary of their size, and the gradient.
BUFFERS = 3


class _Plan(NamedTuple):
    temperature: float
    dtype: torch.dtype
    chunks: list[slice]


def hidden_logprobs(
    hidden_NH: Tensor,
    weight_VH: Tensor,
    labels_N: Tensor,
    *,
    temperature: float = 1.0,
    bias_V: Tensor | None = None,
    chunk_tokens: int | None = None,
) -> Tensor:
    """Log-probability of `labels_N[n]` after `hidden_NH[n]`, in float32.

    Args:
        hidden_NH: Last hidden states of the positions that predict.
        weight_VH: Output head, with its bias in `bias_V`.
        labels_N: Token ids, none of them -100.
    """
    if temperature <= 0:
        raise ValueError(f"temperature must be positive, not {temperature}")
    if len(hidden_NH) != len(labels_N):
        raise ValueError("hidden states and labels must have the same number of tokens")
    is_frozen = not (weight_VH.requires_grad and torch.is_grad_enabled())
    chunks = token_chunks(
        len(hidden_NH), len(weight_VH), n_buffers=BUFFERS, is_frozen=is_frozen, chunk_tokens=chunk_tokens
    )
    plan = _Plan(temperature, product_dtype(hidden_NH, weight_VH), chunks)
    return _Logprobs.apply(hidden_NH, weight_VH, bias_V, labels_N, plan)


class _Logprobs(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Tensor:
        hidden_NH, weight_VH, bias_V, labels_N, plan = inputs
        head = VocabularyHead(weight_VH.to(plan.dtype), bias_V)
        normalizer_N = hidden_NH.new_empty(len(hidden_NH), dtype=head.logits_dtype)
        logprobs_N = torch.empty_like(normalizer_N)
        with torch.autocast(hidden_NH.device.type, enabled=False):
            for chunk, logits_CV in _chunk_logits(hidden_NH, head, plan):
                normalizer_N[chunk] = logits_CV.logsumexp(-1)
                logprobs_N[chunk] = logits_CV.gather(-1, labels_N[chunk, None])[:, 0]
        ctx.plan = plan
        ctx.save_for_backward(hidden_NH, weight_VH, bias_V, labels_N, normalizer_N)
        return logprobs_N.sub_(normalizer_N)

    @staticmethod
    @once_differentiable
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, *upstream: Tensor
    ) -> tuple[Tensor | None, ...]:
        hidden_NH, weight_VH, bias_V, labels_N, normalizer_N = ctx.saved_tensors
        plan = ctx.plan
        head = VocabularyHead(weight_VH.to(plan.dtype), bias_V)
        gradients = HeadGradients(hidden_NH, weight_VH, bias_V, ctx.needs_input_grad[:3], plan.dtype, len(plan.chunks))
        factor_N1 = (upstream[0] / plan.temperature)[:, None]
        with torch.autocast(hidden_NH.device.type, enabled=False):
            for chunk, logits_CV in _chunk_logits(hidden_NH, head, plan):
                logits_CV.sub_(normalizer_N[chunk, None]).exp_().mul_(-factor_N1[chunk])
                logits_CV.scatter_add_(-1, labels_N[chunk, None], factor_N1[chunk])
                gradients.add(chunk, logits_CV.to(plan.dtype), hidden_NH[chunk], head)
        return (*gradients.take(), None, None)


def _chunk_logits(hidden_NH: Tensor, head: VocabularyHead, plan: _Plan) -> Iterator[tuple[slice, Tensor]]:
    buffer_CV = head.logits_buffer(max((chunk.stop - chunk.start for chunk in plan.chunks), default=0))
    for chunk in plan.chunks:
        logits_CV = head.project(hidden_NH[chunk], buffer_CV[: chunk.stop - chunk.start])
        yield chunk, logits_CV.div_(plan.temperature)
