"""What a micro-step has to say, read from the device at once: each reading on its own would stall it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from .engine import Engine

MUST_HOLD = "must hold: "


class StepLog:
    """`keep` takes each value, by name, when the micro-step is over."""

    def __init__(self, engine: Engine, keep: Callable[[str, float], None]) -> None:
        self._engine, self._keep = engine, keep
        self._own: dict[str, Tensor | float] = {}
        self._shared: dict[str, Tensor | float] = {}

    def note(self, values: Mapping[str, Tensor | float]) -> None:
        """This process's own values, or such as are the same in every process."""
        self._own |= values

    def log(self, name: str, value: Tensor | float) -> None:
        """Mean over the processes, which must all call this."""
        self._shared[name] = value

    def require(self, holds_N: Tensor, otherwise: str) -> None:
        self._own[f"{MUST_HOLD}{otherwise}"] = holds_N.all()

    def flush(self) -> None:
        own, shared = _on_cpu(self._own), _on_cpu(self._shared)
        self._own, self._shared = {}, {}
        if self._engine.processes > 1 and shared:
            values = torch.tensor(list(shared.values()), device=self._engine.device)
            shared = dict(zip(shared, self._engine.mean(values).tolist(), strict=True))
        for name, value in {**own, **shared}.items():
            if not name.startswith(MUST_HOLD):
                self._keep(name, value)
            elif not value:
                raise ValueError(name.removeprefix(MUST_HOLD))


def _on_cpu(values: Mapping[str, Tensor | float]) -> dict[str, float]:
    found = {name: value for name, value in values.items() if isinstance(value, Tensor)}
    if not found:
        return {name: float(value) for name, value in values.items()}
    read = dict(zip(found, torch.stack([value.detach().float() for value in found.values()]).tolist(), strict=True))
    return {name: read[name] if name in read else float(value) for name, value in values.items()}
