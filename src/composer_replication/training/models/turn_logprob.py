"""How likely a model finds a turn."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from composer_replication.losses import hidden_logprobs

from .loading import Policy
from .states import last_hidden, output_head


@torch.no_grad()
def turn_logprob(policy: Policy, context: Sequence[int], turn: Sequence[int]) -> float:
    """Sum of the log-probabilities of the turn's tokens, at temperature 1. Logits exist for these tokens alone."""
    ids_1T = torch.tensor([[*context, *turn]], device=policy.model.device)
    hidden_NH = last_hidden(policy.model, ids_1T)[0, len(context) - 1 : -1]
    head = output_head(policy.model)
    logprobs_N = hidden_logprobs(
        hidden_NH, head.weight_VH, ids_1T[0, len(context) :], temperature=1 / head.scale, bias_V=head.bias_V
    )
    return float(logprobs_N.sum())
