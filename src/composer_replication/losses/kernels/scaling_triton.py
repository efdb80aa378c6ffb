# pyright: reportMissingImports=false, reportUntypedFunctionDecorator=false, reportIndexIssue=false
# pyright: reportMissingParameterType=false
# ruff: noqa: ANN001, ANN202 (Triton reads annotations as code)
"""Multiply a tensor in place by a factor that lies on the device, at no cost when the factor is 1."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

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
    """`values` is contiguous; the host does not wait for `factor`."""
    _scale_kernel[(PROGRAMS,)](values, factor, values.numel(), BLOCK=BLOCK)
