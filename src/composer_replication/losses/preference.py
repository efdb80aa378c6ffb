"""Direct preference optimisation on whole actions."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor


def sequence_logprobs(logits_BTV: Tensor, input_ids_BT: Tensor, response_mask_BT: Tensor) -> Tensor:
    """Sum of the log-probabilities of the masked tokens of each row, at temperature 1."""
    logprobs_BTV = logits_BTV[:, :-1].float().log_softmax(-1)
    chosen_BT = logprobs_BTV.gather(-1, input_ids_BT[:, 1:, None])[..., 0]
    return (chosen_BT * response_mask_BT[:, 1:]).sum(-1)


def dpo_loss(
    chosen_B: Tensor,
    rejected_B: Tensor,
    reference_chosen_B: Tensor,
    reference_rejected_B: Tensor,
    beta: float = 0.1,
    label_smoothing: float = 0.0,
) -> Tensor:
    """Mean DPO loss. `label_smoothing` is the chance that a preference is wrong (conservative DPO)."""
    margin_B = beta * ((chosen_B - reference_chosen_B) - (rejected_B - reference_rejected_B))
    return -((1 - label_smoothing) * F.logsigmoid(margin_B) + label_smoothing * F.logsigmoid(-margin_B)).mean()
