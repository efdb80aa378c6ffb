"""TRL's chunked divergence, the one place that reaches into its private kernels. A test watches its signature."""

from __future__ import annotations

from torch import Tensor


def trl_divergence(
    student_hidden_NH: Tensor,
    student_weight_VH: Tensor,
    student_bias_V: Tensor | None,
    teacher_hidden_NH: Tensor,
    teacher_weight_VH: Tensor,
    teacher_bias_V: Tensor | None,
    *,
    beta: float,
    temperature: float,
    top_k: int | None,
) -> Tensor:
    """One divergence per token, differentiable with respect to the student's tensors."""
    if top_k is not None:
        raise ValueError("the trl backend takes no top_k; use 'torch'")
    from trl.kernels.chunked_divergence import ChunkedDivergenceFunction

    divergence_N, _entropy_N = ChunkedDivergenceFunction.apply(
        student_hidden_NH,
        student_weight_VH,
        student_bias_V,
        teacher_hidden_NH.detach(),
        teacher_weight_VH.detach(),
        teacher_bias_V,
        beta,
        temperature,
    )
    return divergence_N
