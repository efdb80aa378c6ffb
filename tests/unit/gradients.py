"""A reward with a gradient, the gradient that an optimiser gets to see, and what channel 2 adds, computed plainly."""

from __future__ import annotations

from typing import Any

import torch

from composer_replication.losses import generalized_jsd_loss


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


def site_losses(model: Any, micro_batches: list[dict[str, Any]], beta: float = 0.5) -> list[torch.Tensor]:
    """Per site, without padding, chunks or reused states."""
    losses = []
    for batch in micro_batches:
        for row, sites in enumerate(batch["sdpo_sites"]):
            prompt = batch["prompt_ids"][row][batch["prompt_mask"][row].bool()].tolist()
            completion = batch["completion_ids"][row].tolist()
            for site in sites:
                turn = completion[site.start : site.end]
                student = model(torch.tensor([prompt + completion[: site.end]])).logits[0, -len(turn) - 1 : -1]
                with torch.no_grad():
                    teacher = model(torch.tensor([site.teacher_context + turn])).logits[0, -len(turn) - 1 : -1]
                losses.append(generalized_jsd_loss(student, teacher, beta=beta))
    return losses
