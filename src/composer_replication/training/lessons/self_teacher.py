"""Whose eyes see the hint: the policy as it is, as it was at the start, a slow average of it, or a mixture.

A frozen or averaged teacher is a second set of the trainable weights that is put into the policy for the teacher's
forward pass and taken out again. So it works for full models, LoRA adapters (which alone are kept twice) and shards.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor

from ..models.states import Head, output_head
from ..models.whole import is_sharded


class SelfTeacher:
    """`rate` None: the live policy. 0: frozen at the start. Above: `shadow += rate · (policy - shadow)` each step."""

    def __init__(self, rate: float | None) -> None:
        self._rate = rate
        self._shadows: dict[str, Tensor] = {}

    @property
    def is_live(self) -> bool:
        return self._rate is None

    @torch.no_grad()
    def begin(self, model: Any) -> None:
        """The first call takes the weights to start from. A model to be sharded must be so by then: shards are kept."""
        if self._rate is not None and not self._shadows:
            # An average of bfloat16 weights would lose its small steps.
            dtype = torch.float32 if self._rate else None
            self._shadows = {name: weight.to(dtype, copy=True) for name, weight in _weights(model).items()}

    @contextmanager
    def installed(self, model: Any) -> Generator[None]:
        """The model thinks with the teacher's weights inside; its own are bit-identical afterwards.

        Before `begin` they are its own. Whole weights change places, which costs nothing and leaves a graph of the
        model alone. Shards are copied.
        """
        if not self._shadows:
            yield
            return
        if is_sharded(model):
            own = {name: weight.clone() for name, weight in _weights(model).items()}
            _write(model, self._shadows)
            try:
                yield
            finally:
                _write(model, own)
            return
        parameters = _trainable(model)
        own = {name: parameter.data for name, parameter in parameters.items()}
        for name, parameter in parameters.items():
            parameter.data = self._shadows[name].to(parameter.dtype)
        try:
            yield
        finally:
            for name, parameter in parameters.items():
                parameter.data = own[name]

    @torch.no_grad()
    def update(self, model: Any) -> None:
        if self._rate:
            weights = _weights(model)
            shadows = [self._shadows[name] for name in weights]
            averaged: Any = torch._foreach_lerp_  # pyright: ignore[reportPrivateUsage, reportPrivateImportUsage]
            averaged(shadows, [weight.float() for weight in weights.values()], self._rate)

    def state(self) -> dict[str, Tensor]:
        return self._shadows

    def load(self, state: Mapping[str, Tensor]) -> None:
        """After `begin`."""
        if {name: tensor.shape for name, tensor in state.items()} != {
            name: shadow.shape for name, shadow in self._shadows.items()
        }:
            raise ValueError("the saved teacher is not one of this model")
        for name, shadow in self._shadows.items():
            shadow.copy_(state[name])


def self_teacher(kind: str, ema_rate: float) -> SelfTeacher:
    """Of a trust region, the half that stays at the start."""
    return SelfTeacher({"live": None, "frozen": 0.0, "trust_region": 0.0, "ema": ema_rate}[kind])


def kept_head(model: Any) -> Head:
    """The head as it is now, also when other weights have come into the model since."""
    weight_VH, bias_V, scale = output_head(model)
    # Gathered shards are overwritten.
    keep = torch.clone if is_sharded(model) else torch.detach
    return Head(keep(weight_VH.detach()), None if bias_V is None else keep(bias_V.detach()), scale)


def mixed_states(start_NH: Tensor, live_NH: Tensor, start: Head, live: Head, rate: float) -> Tensor:
    """For `mixed_head`, whose logits are then `(1 - rate) · start + rate · live`, without any (N, V) tensor."""
    if _is_one(start, live):
        return torch.lerp(start_NH, live_NH, rate)
    return torch.cat([(1 - rate) * start_NH, rate * live_NH], -1)


def mixed_head(start: Head, live: Head, rate: float) -> Head:
    """Both side by side, which costs a copy of them, unless they are one: adapters leave it alone."""
    if _is_one(start, live):
        return start
    bias_V = start.bias_V
    if bias_V is not None and live.bias_V is not None:
        bias_V = torch.lerp(bias_V, live.bias_V, rate)
    return Head(torch.cat([start.weight_VH, live.weight_VH], -1), bias_V, start.scale)


def _is_one(start: Head, live: Head) -> bool:
    return start.weight_VH.data_ptr() == live.weight_VH.data_ptr()


def _trainable(model: Any) -> dict[str, Any]:
    return {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}


def _weights(model: Any) -> dict[str, Tensor]:
    """The trainable weights, or this process's shards of them, to be read and written in place."""
    _reshard(model)
    return {
        name: parameter.to_local().detach() if isinstance(parameter, DTensor) else parameter.detach()
        for name, parameter in _trainable(model).items()
    }


def _write(model: Any, weights: Mapping[str, Tensor]) -> None:
    with torch.no_grad():
        for name, weight in _weights(model).items():
            weight.copy_(weights[name])


def _reshard(model: Any) -> None:
    """A forward pass leaves some modules gathered. Their gathered copies must not be taken for the weights."""
    for module in model.modules():
        if isinstance(module, FSDPModule):
            module.reshard()
