"""Preferences over whole actions: conservative DPO, likelihood of the chosen action, and a penalty where it falls.

    d    = beta · [(log π/ref)(chosen) - (log π/ref)(rejected)]
    loss = mean over pairs of  w·[-(1-e)·log σ(d) - e·log σ(-d)]  +  nll_weight·NLL(chosen)/|chosen|
                               +  dpop_weight·max(0, log ref(chosen) - log π(chosen))/|chosen|

Deviates from DPO-Positive: its penalty stands inside the sigmoid, where a large margin silences it; here it does not.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

LENGTH_RATIO_TO_NORMALISE = 1.5


class PreferenceLoss(NamedTuple):
    """`loss` carries the gradient, the rest is detached. All but `margin_B` are scalars, and 0 without pairs."""

    loss: Tensor
    margin_B: Tensor
    """What the sigmoid saw, `beta` included."""
    accuracy: Tensor
    """Share of pairs with a positive margin."""
    chosen_logprob: Tensor
    """Mean over pairs; alone it tells whether a growing margin comes from falling on both sides."""
    rejected_logprob: Tensor
    """Likewise of the rejected actions."""
    chosen_shift: Tensor
    """Mean log π/ref of the chosen action."""
    length_delta_tokens: Tensor
    """Mean of |chosen| - |rejected|."""

    @property
    def metrics(self) -> dict[str, float]:
        """As plain numbers, for a log."""
        names = ("accuracy", "chosen_logprob", "rejected_logprob", "chosen_shift", "length_delta_tokens")
        means: dict[str, float] = {name: getattr(self, name).item() for name in names}
        return {"margin": self.margin_B.mean().item(), **means, "pairs": float(len(self.margin_B))}


def sequence_logprobs(logits_BTV: Tensor, input_ids_BT: Tensor, response_mask_BT: Tensor) -> Tensor:
    """Sum of the log-probabilities of the tokens of each row where `response_mask_BT` is 1, at temperature 1."""
    logprobs_BTV = logits_BTV[:, :-1].float().log_softmax(-1)
    chosen_BT = logprobs_BTV.gather(-1, input_ids_BT[:, 1:, None])[..., 0]
    return (chosen_BT * response_mask_BT[:, 1:]).sum(-1)


def preference_loss(
    chosen_B: Tensor,
    rejected_B: Tensor,
    reference_chosen_B: Tensor,
    reference_rejected_B: Tensor,
    *,
    chosen_tokens_B: Tensor,
    rejected_tokens_B: Tensor,
    beta: float = 0.1,
    label_smoothing_B: Tensor | float = 0.0,
    nll_weight: float = 1.0,
    dpop_weight: float = 0.0,
    length_normalised: bool | Literal["auto"] = False,
    sft_only: bool = False,
) -> PreferenceLoss:
    """DPO with label smoothing, and the likelihood of the chosen action beside it, as a mean over pairs.

    To add up micro-batches, sum `loss · B`.

    Args:
        chosen_B: Summed log-probability of each chosen action under the policy.
        rejected_B: The same of the rejected actions.
        reference_chosen_B: The same under the frozen reference.
        reference_rejected_B: The same under the frozen reference.
        chosen_tokens_B: Length of each chosen action.
        rejected_tokens_B: Length of each rejected action.
        beta: DPO's: how far the policy may move from the reference.
        label_smoothing_B: Each pair's chance of being wrong, `e`; the margin settles at log((1-e)/e).
        nll_weight: Weight of the likelihood of the chosen action, per token.
        dpop_weight: Weight of the penalty where the chosen action became less likely than under the reference.
        length_normalised: Bring both sides to the shorter one's length; "auto" only where one side is more than 1.5
            times as long.
        sft_only: The control that imitates the same chosen actions without a preference.
    """
    _check(label_smoothing_B, nll_weight, sft_only)
    pairs = max(1, chosen_B.numel())
    chosen_shift_B, rejected_shift_B = chosen_B - reference_chosen_B, rejected_B - reference_rejected_B
    chosen_share_B, rejected_share_B = _shares(chosen_tokens_B, rejected_tokens_B, length_normalised)
    margin_B = beta * (chosen_share_B * chosen_shift_B - rejected_share_B * rejected_shift_B)
    nll_B = -chosen_B / chosen_tokens_B.clamp(min=1)
    terms: list[Tensor] = []
    if not sft_only:
        terms.append(-((1 - label_smoothing_B) * F.logsigmoid(margin_B) + label_smoothing_B * F.logsigmoid(-margin_B)))
        if dpop_weight:
            terms.append(dpop_weight * F.relu(-chosen_shift_B) / chosen_tokens_B.clamp(min=1))
    if nll_weight:
        terms.append(nll_weight * nll_B)

    def mean(values_B: Tensor) -> Tensor:
        return values_B.detach().to(chosen_B.dtype).sum() / pairs

    return PreferenceLoss(
        loss=torch.stack(terms).sum(0).sum() / pairs,
        margin_B=margin_B.detach(),
        accuracy=mean(margin_B > 0),
        chosen_logprob=mean(chosen_B),
        rejected_logprob=mean(rejected_B),
        chosen_shift=mean(chosen_shift_B),
        length_delta_tokens=mean(chosen_tokens_B - rejected_tokens_B),
    )


def _shares(
    chosen_tokens_B: Tensor, rejected_tokens_B: Tensor, length_normalised: bool | Literal["auto"]
) -> tuple[Tensor | float, Tensor | float]:
    """How much of each side's log-ratio counts: |shorter| / |side|.

    That is what SamPO's sampling of equally many tokens gives on average. A plain mean per token would shrink the
    margin by the length, so that one `beta` could not serve normalised and other pairs of one batch.
    """
    if not length_normalised:
        return 1.0, 1.0
    chosen_B, rejected_B = chosen_tokens_B.clamp(min=1), rejected_tokens_B.clamp(min=1)
    shorter_B, longer_B = torch.minimum(chosen_B, rejected_B), torch.maximum(chosen_B, rejected_B)
    shares_B = shorter_B / chosen_B, shorter_B / rejected_B
    if length_normalised != "auto":
        return shares_B
    apply_B = longer_B > LENGTH_RATIO_TO_NORMALISE * shorter_B
    return torch.where(apply_B, shares_B[0], 1.0), torch.where(apply_B, shares_B[1], 1.0)


def _check(label_smoothing_B: Tensor | float, nll_weight: float, sft_only: bool) -> None:
    if sft_only and not nll_weight:
        raise ValueError("sft_only trains on the likelihood alone, so nll_weight must not be 0")
    smoothing_B = torch.as_tensor(label_smoothing_B)
    if not bool(((smoothing_B >= 0) & (smoothing_B <= 0.5)).all()):
        raise ValueError("label_smoothing_B must lie between 0 and 0.5: beyond that the preference is turned round")
