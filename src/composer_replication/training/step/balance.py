"""How much each channel weighs in a step: its schedule, held back by its gradient in the last step.

A channel whose gradient has not been measured yet has no weight: what it would do to the policy is not known before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from composer_replication.losses import ChannelSchedule, GradientRatioCap

from .engine import Engine
from .gradients import POLICY, StepGradients, probe, probed_parameters
from .log import StepLog


class Balance:
    """`limit` is the largest gradient of an added channel, as a multiple of the policy's; None measures nothing. With
    `raises` it is the aim for smaller ones too."""

    def __init__(self, schedules: Mapping[str, ChannelSchedule], limit: float | None, raises: bool = False) -> None:
        self._schedules = dict(schedules)
        self._caps = (
            {name: GradientRatioCap(limit, raises=raises) for name in schedules if name != POLICY} if limit else {}
        )
        self._gradients = StepGradients()
        self._step, self._steps = 0, 1
        self.factors: dict[str, float] = {}

    @property
    def is_capped(self) -> bool:
        return bool(self._caps)

    def at(self, step: int, steps: int) -> None:
        """The step that is made now, the first being 0."""
        self._step, self._steps = step, max(1, steps)

    def scheduled(self, name: str) -> float:
        return self._schedules[name].at(self._step, self._steps)

    def weight(self, name: str) -> float:
        return self.scheduled(name) * (self.factors.get(name, 0.0) if name in self._caps else 1.0)

    def probed_weight(self, name: str) -> float:
        """With which a term can be computed that may only be measured."""
        return self.weight(name) or self.scheduled(name)

    def measure(self, model: Any, name: str, term: Tensor, weight: float = 1.0, states: Sequence[Tensor] = ()) -> None:
        """Of a micro-step; `states` stand in for weights that are shared over processes."""
        parameters = probed_parameters(model)
        add = self._gradients.add if parameters else self._gradients.add_part
        add(name, probe(model, term, parameters or states), weight)

    def measure_stored(self, model: Any, name: str, share: Tensor) -> None:
        """Of a term with a graph of its own. A channel that cannot be measured keeps its whole weight."""
        found = probe(model, share, probed_parameters(model))
        if found:
            self._gradients.add(name, found, self.scheduled(name))
        else:
            self.factors[name] = 1.0

    def conclude(self, engine: Engine, log: StepLog) -> None:
        """At the last micro-step: the factors of the next step, the same in every process."""
        norms, cosines = self._gradients.take(engine)
        policy = norms.pop(POLICY, 0.0)
        log.log("gradient/policy", policy)
        for name, norm in norms.items():
            if not norm:
                continue  # nothing to learn from in this step says nothing about the next ones
            self.factors[name] = self._caps[name].factor(policy, norm)
            log.log(f"gradient/{name}", norm)
            log.log(f"gradient/{name}_factor", self.factors[name])
            if name in cosines:
                log.log(f"gradient/cosine_policy_{name}", cosines[name])

    def state(self) -> dict[str, Any]:
        """Checkpoints are made between steps, where nothing is half measured."""
        return {"caps": {name: cap.state() for name, cap in self._caps.items()}, "factors": self.factors}

    def load(self, state: dict[str, Any]) -> None:
        for name, cap in self._caps.items():
            cap.load(state["caps"][name])
        self.factors = dict(state["factors"])
