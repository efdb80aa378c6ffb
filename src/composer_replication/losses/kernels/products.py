"""Logits of a chunk of tokens, and the gradients that come back from them, as few and as large matrix products.

On CUDA bfloat16 operands stay bfloat16 and logits are float32; everywhere else, and for float16, the products run in
float32, because the gradient is taken before any loss scale is known and float16 would lose it.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

# Up to this many additions into a bfloat16 gradient, their rounding costs half a percent at most.
MAX_BFLOAT16_ADDITIONS = 16
# The rows of a matrix start at multiples of 32 bytes, or the fast products refuse it.
ALIGNED_COLUMNS = 8


class VocabularyHead(NamedTuple):
    """Projection from hidden states to logits, in the dtype its products run in."""

    weight_VH: Tensor
    bias_V: Tensor | None

    @property
    def logits_dtype(self) -> torch.dtype:
        return torch.float64 if self.weight_VH.dtype == torch.float64 else torch.float32

    def logits_buffer(self, n_tokens: int) -> Tensor:
        n_words = self.weight_VH.shape[0]
        n_columns = -(-n_words // ALIGNED_COLUMNS) * ALIGNED_COLUMNS
        return self.weight_VH.new_empty((n_tokens, n_columns), dtype=self.logits_dtype)[:, :n_words]

    def project(self, hidden_CH: Tensor, out_CV: Tensor) -> Tensor:
        multiply(out_CV, hidden_CH.to(self.weight_VH.dtype), self.weight_VH.t())
        return out_CV if self.bias_V is None else out_CV.add_(self.bias_V)


def product_dtype(hidden_NH: Tensor, weight_VH: Tensor) -> torch.dtype:
    """Asked once in the forward pass: autocast is off in the backward pass."""
    device = hidden_NH.device.type
    dtype = torch.promote_types(hidden_NH.dtype, weight_VH.dtype)
    if dtype == torch.float64:
        return dtype
    if torch.is_autocast_enabled(device):
        dtype = torch.get_autocast_dtype(device)
    return dtype if dtype == torch.bfloat16 and device == "cuda" else torch.float32


def multiply(out_IJ: Tensor, left_IK: Tensor, right_KJ: Tensor, *, add: bool = False) -> None:
    """Write the product into `out_IJ`, or add it there; a wider `out_IJ` gets the sums before they are rounded."""
    if out_IJ.dtype == left_IK.dtype:
        if add:
            torch.addmm(out_IJ, left_IK, right_KJ, out=out_IJ)
        else:
            torch.mm(left_IK, right_KJ, out=out_IJ)
    elif add:
        torch.addmm(out_IJ, left_IK, right_KJ, out_dtype=out_IJ.dtype, out=out_IJ)
    else:
        torch.mm(left_IK, right_KJ, out_dtype=out_IJ.dtype, out=out_IJ)


class HeadGradients:
    """Gradients of hidden states, weight and bias (those that are wanted), filled chunk by chunk.

    The weight's gradient is added up in the weight's own dtype, so that it needs no second copy; a bfloat16 one in
    float32 when there are more than `MAX_BFLOAT16_ADDITIONS` chunks.
    """

    def __init__(
        self,
        hidden_NH: Tensor,
        weight_VH: Tensor,
        bias_V: Tensor | None,
        wanted: tuple[bool, bool, bool],
        product: torch.dtype,
        n_chunks: int,
    ) -> None:
        def buffer(of: Tensor | None, is_wanted: bool, at_least: torch.dtype = product) -> Tensor | None:
            if of is None or not is_wanted:
                return None
            return torch.empty_like(of, dtype=torch.promote_types(of.dtype, torch.promote_types(product, at_least)))

        adds_in = torch.float32 if n_chunks > MAX_BFLOAT16_ADDITIONS else product
        self._dtypes = [None if of is None else of.dtype for of in (hidden_NH, weight_VH, bias_V)]
        self._hidden_NH = buffer(hidden_NH, wanted[0])
        self._weight_VH = buffer(weight_VH, wanted[1], at_least=adds_in)
        self._bias_V = buffer(bias_V, wanted[2], at_least=torch.float32)
        self._is_started = False

    def add(self, rows: slice, logits_gradient_CV: Tensor, hidden_CH: Tensor, head: VocabularyHead) -> None:
        if self._hidden_NH is not None:
            multiply(self._hidden_NH[rows], logits_gradient_CV, head.weight_VH)
        if self._weight_VH is not None:
            hidden_CH = hidden_CH.to(head.weight_VH.dtype)
            multiply(self._weight_VH, logits_gradient_CV.t(), hidden_CH, add=self._is_started)
        if self._bias_V is not None:
            summed_V = logits_gradient_CV.sum(0, dtype=self._bias_V.dtype)
            self._bias_V = self._bias_V.add_(summed_V) if self._is_started else summed_V
        self._is_started = True

    def take(self) -> list[Tensor | None]:
        """The gradients in the dtypes of what they belong to; zeros when there were no tokens."""
        found = (self._hidden_NH, self._weight_VH, self._bias_V)
        if not self._is_started:
            found = tuple(None if tensor is None else tensor.zero_() for tensor in found)
        return [None if tensor is None else tensor.to(dtype) for tensor, dtype in zip(found, self._dtypes, strict=True)]
