"""The three channels over stored traces and pairs alone: no rollouts, so any ingested session can be trained on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import Trainer
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR

from composer_replication.losses import ChannelSchedule

from ...channels import Channel
from ...planning.refusals import refuse_stored_traces_in_several
from ...settings import ComposerSettings
from . import checkpoints
from .compat import call_inside_forward

POLICY = "policy"


class OfflineComposerTrainer(Trainer):
    """A transformers trainer over `TraceExample`s and the collator. Each channel has a backward pass of its own."""

    def __init__(
        self, *args: Any, channels: Sequence[Channel], settings: ComposerSettings | None = None, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        refuse_stored_traces_in_several(self.accelerator.num_processes)
        self.active_channels = [channel for channel in channels if channel.weight]
        composer = settings or ComposerSettings()
        self._schedules = {
            channel.name: ChannelSchedule(channel.weight, composer.warmup_share, composer.decay_share)
            for channel in self.active_channels
        } | {POLICY: ChannelSchedule(1.0, 0.0, 0.0)}
        self._values: dict[str, list[float]] = defaultdict(list)

    def training_step(self, model: Any, inputs: dict[str, Any], num_items_in_batch: Any = None) -> Tensor:
        model.train()
        batch = {key: value.to(self.accelerator.device) for key, value in inputs.items()}
        total = torch.zeros((), device=self.accelerator.device)
        for channel in self.active_channels:
            total = total + self._backward(model, channel, batch)
        return total

    def _backward(self, model: Any, channel: Channel, batch: dict[str, Tensor]) -> Tensor:
        unwrapped = self.accelerator.unwrap_model(model)
        with self.accelerator.autocast():
            term: Tensor = call_inside_forward(model, unwrapped, channel.loss, unwrapped, batch)
        self._values[f"channel/{channel.name}"].append(term.detach().item())
        for name, value in getattr(channel, "metrics", {}).items():
            self._values[f"{channel.name}/{name}"].append(value)
        weight = self._schedules[channel.name].at(self.state.global_step, max(1, self.state.max_steps))
        weighted = weight * term / self.current_gradient_accumulation_steps
        if weighted.requires_grad:
            self.accelerator.backward(weighted)
        return weighted.detach()

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        super()._save_checkpoint(model, trial)
        folder = Path(self._get_output_dir(trial=trial)) / f"{PREFIX_CHECKPOINT_DIR}-{self.state.global_step}"
        checkpoints.save(folder, {}, 0, frozenset())

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        means = {name: sum(values) / len(values) for name, values in self._values.items() if values}
        self._values.clear()
        super().log({**logs, **means}, start_time)
