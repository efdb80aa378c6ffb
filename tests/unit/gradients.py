"""A reward with a gradient, and the gradient that an optimiser gets to see."""

from __future__ import annotations

from typing import Any

import torch


def spread(completion_ids: list[list[int]], **columns: Any) -> list[float]:
    """Differs within a group, so that an untrained policy gets a gradient."""
    return [float(sum(place * token for place, token in enumerate(ids, 1))) for ids in completion_ids]


def first_step(trainer: Any) -> torch.Tensor:
    """Train; what the optimiser saw in the first step: the accumulated gradient."""
    seen, create = [], trainer.create_optimizer

    def create_and_watch(*args: Any, **kwargs: Any) -> Any:
        optimizer = create(*args, **kwargs)
        trainer.optimizer.register_step_pre_hook(
            lambda *_: seen.append(torch.cat([p.grad.flatten().clone() for p in trainer.model.parameters()]))
        )
        return optimizer

    trainer.create_optimizer = create_and_watch
    trainer.train()
    return seen[0]
