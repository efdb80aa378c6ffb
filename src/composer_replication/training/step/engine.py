"""What the core of a step asks of whoever runs it: precision, processes, and passes through a wrapped model."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol

from torch import Tensor


class Engine(Protocol):
    @property
    def device(self) -> Any: ...

    @property
    def processes(self) -> int: ...

    def unwrap(self, model: Any) -> Any:
        """The model without what spreads it over processes."""
        ...

    def autocast(self) -> AbstractContextManager[Any]: ...

    def inside_forward(self, model: Any, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call within the forward pass of whatever wraps the model."""
        ...

    def apart(self, model: Any) -> AbstractContextManager[Any]:
        """A backward pass inside is not synchronised: a later one of the step synchronises the sum."""
        ...

    def backward(self, loss: Tensor) -> None: ...

    def gather(self, value: float) -> Tensor:
        """One value of each process."""
        ...

    def mean(self, tensor: Tensor) -> Tensor:
        """Over the processes, entry by entry."""
        ...
