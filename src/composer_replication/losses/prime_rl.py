"""Channel 1 as a loss that prime-rl loads by its import path: DAPO's clipped ratio to whoever sampled.

`[trainer.loss] type = "custom"` gives one sample at a time and divides the sum over all tokens itself. Not run under
prime-rl: it needs Python 3.12, vLLM and CUDA. Tests hold the number to the formula.
"""

from __future__ import annotations

from typing import Any

import torch


def dapo(inputs: Any, clip_low: float = 0.2, clip_high: float = 0.28) -> Any:
    """prime-rl's `LossInputs` in, its `LossOutputs` out."""
    from prime_rl.trainer.rl.loss import LossOutputs  # pyright: ignore[reportMissingImports]

    ratio_T = (inputs.trainer_logprobs - inputs.inference_logprobs).exp()
    clipped_T = ratio_T.clamp(1 - clip_low, 1 + clip_high)
    loss_T = -torch.minimum(ratio_T * inputs.advantages, clipped_T * inputs.advantages) * inputs.loss_mask
    if inputs.loss_weights is not None:
        loss_T = loss_T * inputs.loss_weights
    was_clipped_T = (ratio_T != clipped_T) & inputs.loss_mask
    share = was_clipped_T.sum() / inputs.loss_mask.sum().clamp(min=1)
    return LossOutputs(loss=loss_T.sum(), metrics={"clipped": share.detach()})
