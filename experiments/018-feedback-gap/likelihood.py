"""How likely a policy finds a given turn behind a context. What two contexts share at their begin is read once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from transformers import DynamicCache

from composer_replication.training.models.tokens import shared_length


class Reader:
    def __init__(self, model: Any) -> None:
        self._model, self._cache, self._read = model, DynamicCache(), list[int]()

    @torch.no_grad()
    def mean_logprob(self, context: Sequence[int], turn: Sequence[int]) -> float:
        """Of the tokens of `turn`, in nats."""
        kept = min(shared_length(self._read, context), len(context) - 1)
        self._cache.crop(kept - len(self._read))
        if kept < len(context) - 1:
            self._forward(context[kept:-1], logits_to_keep=1)
        logits_TV = self._forward([context[-1], *turn[:-1]])
        self._read = [*context, *turn[:-1]]
        labels_T1 = torch.tensor(turn, device=logits_TV.device)[:, None]
        return logits_TV.float().log_softmax(-1).gather(1, labels_T1).mean().item()

    def _forward(self, ids: Sequence[int], logits_to_keep: int = 0) -> torch.Tensor:
        ids_1T = torch.tensor([list(ids)], device=self._model.device)
        output = self._model(
            input_ids=ids_1T, past_key_values=self._cache, use_cache=True, logits_to_keep=logits_to_keep
        )
        return output.logits[0]
