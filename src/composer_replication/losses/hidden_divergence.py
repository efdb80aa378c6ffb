"""Divergence between teacher and student from their hidden states; no (N, V) tensor is ever made.

The gradient is taken in the forward pass, chunk by chunk of tokens: two products for the logits, one for the gradient
of the hidden states, one for that of the head unless it is frozen. The backward pass multiplies by the upstream factor,
at no cost where that is 1: put constant factors into `weights_N`. Definitions are those of `losses.divergence`.
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from .divergence import check_divergence, clip_factor
from .kernels.chunking import token_chunks
from .kernels.products import HeadGradients, VocabularyHead, product_dtype
from .kernels.rows import BUFFERS as TORCH_BUFFERS
from .kernels.rows import DivergenceRule, Rows, torch_rows

Backend = Literal["auto", "torch", "triton"]


class HiddenDivergence(NamedTuple):
    """`loss` = Σ weight · min(1, token_clip / D) · D; `divergence_N` holds D itself, without a gradient."""

    loss: Tensor
    divergence_N: Tensor


class _Sides(NamedTuple):
    student_hidden_NH: Tensor
    student_weight_VH: Tensor
    student_bias_V: Tensor | None
    teacher_hidden_NH: Tensor
    teacher_weight_VH: Tensor
    teacher_bias_V: Tensor | None
    weights_N: Tensor


class _Plan(NamedTuple):
    rule: DivergenceRule
    student_dtype: torch.dtype
    teacher_dtype: torch.dtype
    uses_triton: bool
    chunk_tokens: int | None


def hidden_divergence(
    student_hidden_NH: Tensor,
    student_weight_VH: Tensor,
    teacher_hidden_NH: Tensor,
    teacher_weight_VH: Tensor,
    *,
    weights_N: Tensor,
    beta: float = 0.5,
    temperature: float = 1.0,
    top_k: int | None = None,
    token_clip: float | None = None,
    student_bias_V: Tensor | None = None,
    teacher_bias_V: Tensor | None = None,
    chunk_tokens: int | None = None,
    backend: Backend = "auto",
) -> HiddenDivergence:
    """Weighted sum over N tokens. Only the student's hidden states and head get a gradient.

    A bfloat16 gradient of the head is added up in bfloat16, over more than 16 chunks in float32. A float32 head under
    autocast is copied to bfloat16 once per call.

    Args:
        student_hidden_NH: Last hidden states of the positions that predict; the teacher's likewise.
        student_weight_VH: Output head, with its bias in `student_bias_V`; the teacher's likewise.
        weights_N: Factor of each token in the sum.
        backend: `auto` is Triton on a GPU for the whole vocabulary, else torch.
    """
    sides = _Sides(
        student_hidden_NH, student_weight_VH, student_bias_V,
        teacher_hidden_NH, teacher_weight_VH, teacher_bias_V, weights_N.detach(),
    )  # fmt: skip
    rule = DivergenceRule(beta, temperature, top_k, token_clip)
    _check(sides, rule)
    student_dtype = product_dtype(student_hidden_NH, student_weight_VH)
    teacher_dtype = product_dtype(teacher_hidden_NH, teacher_weight_VH)
    can_fuse = top_k is None and torch.float64 not in (student_dtype, teacher_dtype)
    if backend == "triton" and not can_fuse:
        raise ValueError("the triton backend takes neither top_k nor float64; use 'torch'")
    uses_triton = backend == "triton" or (
        backend == "auto" and can_fuse and student_hidden_NH.is_cuda and _triton_is_installed()
    )
    plan = _Plan(rule, student_dtype, teacher_dtype, uses_triton, chunk_tokens)
    loss, divergence_N = _GradientInForward.apply(*sides, plan, torch.is_grad_enabled())
    return HiddenDivergence(loss, divergence_N)


class _GradientInForward(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> tuple[Tensor, Tensor]:
        *tensors, plan, is_training = inputs
        sides = _Sides(*tensors)
        ctx.wanted = tuple(is_training and needed for needed in ctx.needs_input_grad[:3])
        ctx.plan = plan
        ctx.save_for_backward(*sides)
        divergence_N, ctx.gradients = _divergence_and_gradients(sides, plan, ctx.wanted)
        ctx.mark_non_differentiable(divergence_N)
        return _weighted(divergence_N, sides.weights_N, plan.rule), divergence_N

    @staticmethod
    @once_differentiable
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, *upstream: Tensor
    ) -> tuple[Tensor | None, ...]:
        # The first backward pass gives the gradients away, scaled where they lie; another one has to make new ones.
        gradients, ctx.gradients = ctx.gradients, None
        if gradients is None:
            gradients = _divergence_and_gradients(_Sides(*ctx.saved_tensors), ctx.plan, ctx.wanted)[1]
        for gradient in gradients:
            if gradient is not None:
                _scale(gradient, upstream[0], ctx.plan.uses_triton)
        return (*gradients, *(None,) * 6)


def _divergence_and_gradients(
    sides: _Sides, plan: _Plan, wanted: tuple[bool, bool, bool]
) -> tuple[Tensor, list[Tensor | None]]:
    rows, n_buffers = _rows(plan)
    n_tokens, n_words = len(sides.student_hidden_NH), len(sides.student_weight_VH)
    chunks = token_chunks(
        n_tokens, n_words, n_buffers=n_buffers, is_frozen=not wanted[1], chunk_tokens=plan.chunk_tokens
    )
    student = VocabularyHead(sides.student_weight_VH.to(plan.student_dtype), sides.student_bias_V)
    teacher = VocabularyHead(sides.teacher_weight_VH.to(plan.teacher_dtype), sides.teacher_bias_V)
    if sides.teacher_weight_VH is sides.student_weight_VH and plan.teacher_dtype == plan.student_dtype:
        teacher = teacher._replace(weight_VH=student.weight_VH)
    gradients = HeadGradients(*sides[:3], wanted, plan.student_dtype, len(chunks))
    widest = torch.promote_types(student.logits_dtype, teacher.logits_dtype)
    weights_N = sides.weights_N.to(widest)
    divergence_N = torch.empty_like(weights_N)
    largest_tokens = max((chunk.stop - chunk.start for chunk in chunks), default=0)
    student_CV, teacher_CV = student.logits_buffer(largest_tokens), teacher.logits_buffer(largest_tokens)
    with torch.autocast(weights_N.device.type, enabled=False):
        for chunk in chunks:
            size = chunk.stop - chunk.start
            hidden_CH = sides.student_hidden_NH[chunk]
            divergence_N[chunk], logits_gradient_CV = rows(
                student.project(hidden_CH, student_CV[:size]),
                teacher.project(sides.teacher_hidden_NH[chunk], teacher_CV[:size]),
                weights_N[chunk],
                plan.rule,
                plan.student_dtype if any(wanted) else None,
            )
            if logits_gradient_CV is not None:
                gradients.add(chunk, logits_gradient_CV, hidden_CH, student)
    return divergence_N, gradients.take()


def _rows(plan: _Plan) -> tuple[Rows, int]:
    if not plan.uses_triton:
        return torch_rows, TORCH_BUFFERS
    from .kernels.rows_triton import BUFFERS, triton_rows

    return triton_rows, BUFFERS


@cache
def _triton_is_installed() -> bool:
    return find_spec("triton") is not None


def _scale(gradient: Tensor, factor: Tensor, uses_triton: bool) -> None:
    if uses_triton:
        from .kernels.rows_triton import scale_in_place

        scale_in_place(gradient, factor)
    elif gradient.is_cuda or factor != 1:
        gradient.mul_(factor)


def _weighted(divergence_N: Tensor, weights_N: Tensor, rule: DivergenceRule) -> Tensor:
    if rule.token_clip is not None:
        divergence_N = divergence_N * clip_factor(divergence_N, rule.token_clip)
    return (divergence_N * weights_N.to(divergence_N.dtype)).sum()


def _check(sides: _Sides, rule: DivergenceRule) -> None:
    check_divergence(*rule)
    n_tokens = {len(sides.student_hidden_NH), len(sides.teacher_hidden_NH), len(sides.weights_N)}
    if len(n_tokens) > 1:
        raise ValueError("student, teacher and weights must have the same number of tokens")
    if len(sides.student_weight_VH) != len(sides.teacher_weight_VH):
        raise ValueError("student and teacher must have the same vocabulary")
