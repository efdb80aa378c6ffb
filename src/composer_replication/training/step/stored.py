"""Channels on stored data: each has a backward pass of its own, so that memory holds the largest and not their sum."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ..channels import Channel
from .balance import Balance
from .engine import Engine
from .log import StepLog


class StoredChannels:
    def __init__(self, channels: Sequence[Channel], balance: Balance, engine: Engine, log: StepLog) -> None:
        self.active = [channel for channel in channels if channel.weight]
        self._balance, self._engine, self._log = balance, engine, log

    def backward(self, model: Any, batch: Mapping[str, Tensor], micro_steps: int) -> Tensor:
        """Of every channel, for one of `micro_steps`; the weighted sum is returned for the log alone."""
        batch = {key: value.to(self._engine.device) for key, value in batch.items()}
        if self._engine.processes > 1:
            batch |= self._shares(batch)
        unwrapped = self._engine.unwrap(model)
        total = torch.zeros((), device=self._engine.device)
        for channel in self.active:
            with self._engine.apart(model):
                read = partial(self._pass, model)
                if teach := getattr(channel, "teach", None):
                    teach(read, unwrapped, batch)
                term: Tensor = read(channel.loss, unwrapped, batch)
                share = term / micro_steps
                if self._balance.is_capped:
                    self._balance.measure_stored(unwrapped, channel.name, share)
                weight = self._balance.weight(channel.name)
                weighted = weight * share
                if weight and share.requires_grad:
                    self._engine.backward(weighted)
            self._log.log(f"channel/{channel.name}", term)
            metrics: Mapping[str, float] = getattr(channel, "metrics", {})
            self._log.note({f"{channel.name}/{name}": value for name, value in metrics.items()})
            total = total + weighted.detach()
        return total

    def _pass(self, model: Any, function: Callable[..., Any], *arguments: Any) -> Any:
        """Each within an autocast of its own: weights that were cast for the teacher must not be taken for the
        policy's."""
        with self._engine.autocast():
            return self._engine.inside_forward(model, function, *arguments)

    def _shares(self, batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Sites and pairs per process: divided by these, a mean over processes is one over all sites or pairs."""
        counted = {"sdpo_number": "sdpo_row", "dpo_number": "dpo_label_smoothing"}
        least = 1 / self._engine.processes
        return {name: self._engine.gather(len(batch[key])).mean().clamp(min=least) for name, key in counted.items()}
