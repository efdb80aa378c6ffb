"""The added channels for engines that give no logits: from the log-probabilities of the sampled tokens alone.

channel 2   w · ½ (log π − log π(hinted))²     its gradient is that of reverse KL on average over samples
channel 3   s · log π                          linear, with the slope s of the preference at the policy as it is
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from .preference import preference_loss


class SampledTerms(NamedTuple):
    """Sums over all tokens; weights and slopes carry the channels' weights and denominators."""

    distilled: Tensor
    preferred: Tensor


def sampled_terms(logprobs: Tensor, teacher: Tensor, weights: Tensor, slopes: Tensor) -> SampledTerms:
    """All of one shape. A token with weight and slope 0 adds nothing, whatever its log-probability."""
    apart = torch.where(weights != 0, logprobs - teacher, 0)
    pulled = torch.where(slopes != 0, logprobs, 0)
    return SampledTerms((weights * apart.square()).sum() / 2, (slopes * pulled).sum())


class Slopes(NamedTuple):
    chosen_B: Tensor
    rejected_B: Tensor
    """Of the mean over pairs, for each token of the side."""
    metrics: dict[str, float]
    """With the loss."""


def preference_slopes(chosen_B: Tensor, rejected_B: Tensor, *reference: Tensor, **settings: Any) -> Slopes:
    """The derivatives of `preference_loss` by both sides' log-probabilities, which a linear term can stand for."""
    chosen_B, rejected_B = chosen_B.detach().requires_grad_(), rejected_B.detach().requires_grad_()
    with torch.enable_grad():
        found = preference_loss(chosen_B, rejected_B, *reference, **settings)
    # 0 for a side that the loss does not read, as imitation does not the rejected.
    chosen, rejected = torch.autograd.grad(
        found.loss, (chosen_B, rejected_B), allow_unused=True, materialize_grads=True
    )
    return Slopes(chosen, rejected, {"loss": found.loss.item(), **found.metrics})
