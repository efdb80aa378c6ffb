"""Accelerate as the engine of a step."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel
from trl.models.utils import _ForwardRedirection  # pyright: ignore[reportPrivateUsage]


class AccelerateEngine:
    def __init__(self, accelerator: Any) -> None:
        self._accelerator = accelerator

    @property
    def device(self) -> Any:
        return self._accelerator.device

    @property
    def processes(self) -> int:
        return self._accelerator.num_processes

    def unwrap(self, model: Any) -> Any:
        return self._accelerator.unwrap_model(model)

    def autocast(self) -> AbstractContextManager[Any]:
        return self._accelerator.autocast()

    def inside_forward(self, model: Any, function: Callable[..., Any], *arguments: Any) -> Any:
        """Within the forward pass of whatever wraps the model, so that the wrapper's hooks fire."""
        return _ForwardRedirection()(model, self.unwrap(model), function, *arguments)

    def apart(self, model: Any) -> AbstractContextManager[Any]:
        is_wrapped = isinstance(model, DistributedDataParallel)
        return self._accelerator.no_sync(model) if is_wrapped else nullcontext()

    def backward(self, loss: Tensor) -> None:
        self._accelerator.backward(loss)

    def gather(self, value: float) -> Tensor:
        """That of a single process never leaves the CPU."""
        own = torch.tensor([float(value)])
        return own if self.processes == 1 else self._accelerator.gather(own.to(self.device))

    def mean(self, tensor: Tensor) -> Tensor:
        return self._accelerator.reduce(tensor, "mean")
