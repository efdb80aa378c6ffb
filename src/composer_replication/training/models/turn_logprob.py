"""How likely a model finds a turn."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from composer_replication.losses import sequence_logprobs

from .loading import Policy


@torch.no_grad()
def turn_logprob(policy: Policy, context: Sequence[int], turn: Sequence[int]) -> float:
    """Sum of the log-probabilities of the turn's tokens, at temperature 1."""
    ids_1T = torch.tensor([[*context, *turn]], device=policy.model.device)
    mask_1T = torch.zeros_like(ids_1T)
    mask_1T[:, len(context) :] = 1
    logits_1TV = policy.model(input_ids=ids_1T, use_cache=False).logits
    return float(sequence_logprobs(logits_1TV, ids_1T, mask_1T)[0])
