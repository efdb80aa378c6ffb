"""TRL's GRPO trainer with further channels added to its loss.

With no active channel `_compute_loss` is TRL's own, untouched, so the run is bit-identical to plain GRPO.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from torch import Tensor
from trl.trainer.grpo_trainer import GRPOTrainer

from .channels import Channel, ReplayPreference, SelfDistillation
from .collator import Batch


class ComposerReplicationTrainer(GRPOTrainer):
    """`loss = GRPO + alpha_sdpo · SDPO + beta_replay · TR-DPO`, plus any further `channels`.

    `batches` yields collated stored traces, one per micro-step and without end; it must draw from its own random
    generator. Without it only the policy gradient trains.
    """

    def __init__(
        self,
        *args: Any,
        alpha_sdpo: float = 0.1,
        beta_replay: float = 0.05,
        sdpo_jsd_beta: float = 0.5,
        dpo_beta: float = 0.1,
        batches: Iterator[Batch] | None = None,
        channels: Sequence[Channel] = (),
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        if channels and batches is None:
            raise ValueError("further channels need batches to read")
        everything: list[Channel] = [
            SelfDistillation(alpha_sdpo, sdpo_jsd_beta),
            ReplayPreference(beta_replay, dpo_beta),
            *channels,
        ]
        self.active_channels = [channel for channel in everything if channel.weight] if batches else []
        self._batches = batches

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> Tensor:
        loss = super()._compute_loss(model, inputs)
        if not self.active_channels or self._batches is None or not model.training:
            return loss
        batch = {key: value.to(self.accelerator.device) for key, value in next(self._batches).items()}
        self._log_channel("policy", loss)
        for channel in self.active_channels:
            term = channel.loss(model, batch)
            self._log_channel(channel.name, term)
            # TRL's loss is already divided for gradient accumulation; an added term must do the same.
            loss = loss + channel.weight * term / self.current_gradient_accumulation_steps
        return loss

    def _log_channel(self, name: str, term: Tensor) -> None:
        gathered: Any = self.accelerator.gather(term.detach())
        self._metrics["train"][f"channel/{name}"].append(gathered.mean().item())
