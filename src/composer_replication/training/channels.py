"""The channels that are added to the policy gradient. A new one is a class with a name, a weight and a loss.

Channel 2 compares the policy with itself: the same tokens of an error turn, once in the plain context and once with
the hint spliced in. Channel 3 prefers what teachers agree on over what the actor did, relative to a frozen reference.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from composer_replication.losses import dpo_loss, sequence_logprobs, token_divergence


class Channel(Protocol):
    name: str
    weight: float

    def loss(self, model: Any, batch: Mapping[str, Tensor]) -> Tensor:
        """A scalar; exactly 0 when the batch holds nothing for this channel."""
        ...


@dataclass
class SelfDistillation:
    """Mean over sites of the mean divergence over the tokens of the error turn. The teacher is the live policy."""

    weight: float
    jsd_beta: float = 0.5
    temperature: float = 1.0
    name: str = "sdpo"

    def loss(self, model: Any, batch: Mapping[str, Tensor]) -> Tensor:
        rows, starts, mask_KT = batch["sdpo_row"], batch["sdpo_start"], batch["sdpo_loss_mask"]
        if not len(rows):
            return batch["rewards"].new_zeros(())
        with torch.no_grad():
            teacher_KTV = _logits(model, batch["ctx_teacher_input_ids"], batch["ctx_teacher_attention_mask"])
        student_BTV = _logits(model, batch["input_ids"], batch["attention_mask"])
        losses: list[Tensor] = []
        for site in range(len(rows)):
            where = mask_KT[site].nonzero()[:, 0]
            row, start, length = int(rows[site]), int(starts[site]), len(where)
            student_ids = batch["input_ids"][row, start : start + length]
            if not torch.equal(student_ids, batch["ctx_teacher_input_ids"][site, where]):
                raise ValueError(f"site {site}: teacher and student tokens differ")
            # Position p predicts token p + 1.
            student_NV = student_BTV[row, start - 1 : start + length - 1]
            divergence_N = token_divergence(student_NV, teacher_KTV[site, where - 1], self.jsd_beta, self.temperature)
            losses.append(divergence_N.mean())
        return torch.stack(losses).mean()


@dataclass
class ReplayPreference:
    """DPO over the pairs that teacher replay produced."""

    weight: float
    beta: float = 0.1
    name: str = "replay"

    def loss(self, model: Any, batch: Mapping[str, Tensor]) -> Tensor:
        if not len(batch["dpo_chosen_input_ids"]):
            return batch["rewards"].new_zeros(())
        return dpo_loss(
            action_logprobs(model, batch, "chosen"),
            action_logprobs(model, batch, "rejected"),
            batch["dpo_reference_chosen_logps"],
            batch["dpo_reference_rejected_logps"],
            self.beta,
        )


def action_logprobs(model: Any, batch: Mapping[str, Tensor], side: str) -> Tensor:
    """Log-probability of the chosen or rejected action of each pair."""
    ids, attention = batch[f"dpo_{side}_input_ids"], batch[f"dpo_{side}_attention_mask"]
    return sequence_logprobs(_logits(model, ids, attention), ids, batch[f"dpo_{side}_response_mask"])


def _logits(model: Any, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
    return model(input_ids=input_ids, attention_mask=attention_mask, use_cache=False).logits
