# pyright: reportMissingImports=false, reportUntypedFunctionDecorator=false, reportIndexIssue=false
# pyright: reportMissingParameterType=false
# ruff: noqa: ANN001, ANN202 (Triton reads annotations as code)
"""The mathematics of `rows.torch_rows` over the whole vocabulary, fused: three readings and one writing per logit.

One program owns a row. The gradient is written over the student's logits: with half their width it takes the first
half of each row, which is safe because a block is written only after all threads have read it and what precedes it.
"""

from __future__ import annotations

import math

import torch
import triton
import triton.language as tl
from torch import Tensor

from ..divergence import LOGPROB_FLOOR
from .rows import DivergenceRule

BUFFERS = 2
BLOCK_COLUMNS = 8192
WARPS = 32
LOG2_E, LN_2 = tl.constexpr(math.log2(math.e)), tl.constexpr(math.log(2))
FLOOR = tl.constexpr(LOGPROB_FLOOR * math.log2(math.e))
LOWEST = tl.constexpr(-1e30)


@triton.jit
def _log2(x, FAST: tl.constexpr):
    if FAST:
        return tl.inline_asm_elementwise(
            "lg2.approx.ftz.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1
        )
    else:
        return tl.log2(x)


@triton.jit
def _counted(largest, total, logit, sharpness):
    """Online softmax, one exponential per logit."""
    logit = tl.maximum(logit, LOWEST)
    smaller = tl.exp2(-tl.abs(logit - largest) * sharpness)
    total = tl.where(logit > largest, total * smaller + 1.0, total + smaller)
    return tl.maximum(largest, logit), total


@triton.jit
def _normalizer(largest, total, sharpness):
    row_largest = tl.max(largest, axis=0)
    return row_largest, tl.log2(tl.sum(total * tl.exp2((largest - row_largest) * sharpness), axis=0))


@triton.jit
def _logprobs(row_ptr, columns, n_columns, sharpness, largest, log_total, EVICTION: tl.constexpr):
    logit = tl.load(row_ptr + columns, mask=columns < n_columns, other=-float("inf"), eviction_policy=EVICTION)
    # The largest goes first: the log of the sum would be rounded away beside a large logit.
    return tl.maximum((logit - largest) * sharpness - log_total, FLOOR)


@triton.jit
def _terms(student, teacher, beta, KIND: tl.constexpr, FAST: tl.constexpr):
    """The student's probability, each column's share of D, and ∂D/∂a; `KIND` is beta where that is 0 or 1, else 2.

    Shares, and the derivatives of kinds 1 and 2, are in units of ln 2.
    """
    probability = tl.exp2(student)
    gap = teacher - student
    if KIND == 0:
        teacher_probability = tl.exp2(teacher)
        share = teacher_probability * gap
        by_logprob = tl.where(student > FLOOR, -teacher_probability, 0.0)
    elif KIND == 1:
        by_logprob = -probability * gap
        share = by_logprob
    else:
        smaller = tl.exp2(-tl.abs(gap))
        larger_part = tl.where(gap > 0, beta, 1.0 - beta)
        excess = tl.maximum(gap, 0.0) + _log2(larger_part + (1.0 - larger_part) * smaller, FAST)
        by_logprob = (beta - 1.0) * probability * excess
        share = beta * tl.exp2(teacher) * (gap - excess) + by_logprob
    return probability, share, by_logprob


@triton.jit
def _rows_kernel(
    student_ptr,
    teacher_ptr,
    gradient_ptr,
    weights_ptr,
    divergence_ptr,
    student_stride,
    teacher_stride,
    gradient_stride,
    n_columns,
    inverse_temperature,
    beta,
    token_clip,
    KIND: tl.constexpr,
    HAS_CLIP: tl.constexpr,
    HAS_GRADIENT: tl.constexpr,
    FAST: tl.constexpr,
    BLOCK: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    student_row = student_ptr + row * student_stride
    teacher_row = teacher_ptr + row * teacher_stride
    sharpness = inverse_temperature * LOG2_E

    # Finite, because the difference of two infinities is no number; lanes without a logit end with no weight.
    student_largest = tl.full([BLOCK], LOWEST, tl.float32)
    teacher_largest = tl.full([BLOCK], LOWEST, tl.float32)
    student_total = tl.zeros([BLOCK], tl.float32)
    teacher_total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, n_columns, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        student = tl.load(student_row + columns, mask=columns < n_columns, other=LOWEST)
        teacher = tl.load(teacher_row + columns, mask=columns < n_columns, other=LOWEST)
        student_largest, student_total = _counted(student_largest, student_total, student, sharpness)
        teacher_largest, teacher_total = _counted(teacher_largest, teacher_total, teacher, sharpness)
    student_most, student_log = _normalizer(student_largest, student_total, sharpness)
    teacher_most, teacher_log = _normalizer(teacher_largest, teacher_total, sharpness)

    # Backwards, because the end of the row was read last and may still be in the cache.
    shares = tl.zeros([BLOCK], tl.float32)
    by_logprobs = tl.zeros([BLOCK], tl.float32)
    n_blocks = tl.cdiv(n_columns, BLOCK)
    for done in range(0, n_blocks):
        columns = (n_blocks - 1 - done) * BLOCK + tl.arange(0, BLOCK)
        student = _logprobs(student_row, columns, n_columns, sharpness, student_most, student_log, "")
        teacher = _logprobs(teacher_row, columns, n_columns, sharpness, teacher_most, teacher_log, "")
        _, share, by_logprob = _terms(student, teacher, beta, KIND, FAST)
        shares += share
        by_logprobs += by_logprob
    divergence = tl.sum(shares, axis=0) * LN_2
    total = tl.sum(by_logprobs, axis=0)
    tl.store(divergence_ptr + row, divergence)

    if HAS_GRADIENT:
        factor = tl.load(weights_ptr + row) * inverse_temperature
        if KIND != 0:
            factor *= LN_2
        if HAS_CLIP:
            factor *= token_clip / tl.maximum(divergence, token_clip)
        gradient_row = gradient_ptr + row * gradient_stride
        for start in range(0, n_columns, BLOCK):
            columns = start + tl.arange(0, BLOCK)
            student = _logprobs(student_row, columns, n_columns, sharpness, student_most, student_log, "evict_first")
            teacher = _logprobs(teacher_row, columns, n_columns, sharpness, teacher_most, teacher_log, "evict_first")
            probability, _, by_logprob = _terms(student, teacher, beta, KIND, FAST)
            gradient = factor * (by_logprob - probability * total)
            tl.debug_barrier()
            tl.store(gradient_row + columns, gradient.to(gradient_ptr.dtype.element_ty), mask=columns < n_columns)


def triton_rows(
    student_CV: Tensor, teacher_CV: Tensor, weights_C: Tensor, rule: DivergenceRule, gradient: torch.dtype | None
) -> tuple[Tensor, Tensor | None]:
    """`rows.torch_rows` for float32 logits whose rows lie densely; the gradient is a view of the student's memory."""
    n_tokens, n_words = student_CV.shape
    divergence_C = student_CV.new_empty(n_tokens)
    gradient_CV = student_CV if gradient is None else student_CV.view(gradient)[:, :n_words]
    _rows_kernel[(n_tokens,)](
        student_CV,
        teacher_CV,
        gradient_CV,
        weights_C,
        divergence_C,
        student_CV.stride(0),
        teacher_CV.stride(0),
        gradient_CV.stride(0),
        n_words,
        1 / rule.temperature,
        rule.beta,
        1.0 if rule.token_clip is None else rule.token_clip,
        KIND=int(rule.beta) if rule.beta in (0, 1) else 2,
        HAS_CLIP=rule.token_clip is not None,
        HAS_GRADIENT=gradient is not None,
        FAST=student_CV.is_cuda,  # the interpreter knows no assembler
        BLOCK=BLOCK_COLUMNS,
        num_warps=WARPS,
    )
    return divergence_C, None if gradient is None else gradient_CV


PROGRAMS = 1024
BLOCK = 4096


@triton.jit
def _scale_kernel(values_ptr, factor_ptr, n_values, BLOCK: tl.constexpr):
    factor = tl.load(factor_ptr).to(tl.float32)
    if factor != 1.0:
        step = tl.num_programs(0).to(tl.int64) * BLOCK
        for start in range(tl.program_id(0).to(tl.int64) * BLOCK, n_values, step):
            places = start + tl.arange(0, BLOCK)
            scaled = tl.load(values_ptr + places, mask=places < n_values).to(tl.float32) * factor
            tl.store(values_ptr + places, scaled.to(values_ptr.dtype.element_ty), mask=places < n_values)


def scale_in_place(values: Tensor, factor: Tensor) -> None:
    """At no cost where it is 1. `values` is contiguous; the host does not wait for `factor`."""
    _scale_kernel[(PROGRAMS,)](values, factor, values.numel(), BLOCK=BLOCK)
