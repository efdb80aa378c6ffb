"""Muon for the matrices of a network's hidden layers and AdamW for the rest, as one optimiser.

Muon makes the update of a matrix orthogonal, and for that it needs the whole matrix. Where processes share the weights
(FSDP2, also replicated), each matrix goes to one of those that share it, which does the work for the others: a number
travels there and back once, in bfloat16, and the momentum stays shared. `torch.optim.Muon` alone runs on shards too,
but rounds partial sums to bfloat16, so that its weights are 6.4e-4 away from those of one process after five steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.nn import Linear
from torch.optim._muon import (
    _adjust_lr,  # pyright: ignore[reportPrivateUsage]
    _zeropower_via_newtonschulz,  # pyright: ignore[reportPrivateUsage]
)

from composer_replication.errors import UsageError

from .states import language_model

KIND = "kind"
"""Which of the two optimisers a group of parameters is for; kept in checkpoints."""
MUON, ADAMW = "muon", "adamw"


def muon_with_adamw(model: Any, muon: dict[str, Any], adamw: dict[str, Any]) -> torch.optim.Optimizer:
    """`muon` and `adamw` are the options of each."""
    matrices = hidden_matrices(model)
    theirs = {id(matrix) for matrix in matrices}
    rest = [each for each in model.parameters() if each.requires_grad and id(each) not in theirs]
    parts: dict[str, torch.optim.Optimizer] = {}
    if matrices:
        parts[MUON] = SpreadMuon(matrices, **muon)
    if rest:
        parts[ADAMW] = torch.optim.AdamW(rest, **adamw)
    return Together(parts)


def hidden_matrices(model: Any) -> list[Tensor]:
    """Trainable weights of linear layers but the output head; of adapters, both factors."""
    head = language_model(model).get_output_embeddings()
    layers = [module for module in model.modules() if isinstance(module, Linear) and module is not head]
    return [layer.weight for layer in layers if layer.weight.requires_grad]


class Together(torch.optim.Optimizer):
    """Groups and state are here, where schedules, accelerate and checkpoints look for them and put others in place."""

    def __init__(self, parts: dict[str, torch.optim.Optimizer]) -> None:
        self._parts = parts
        groups = [{**group, KIND: kind} for kind, part in parts.items() for group in part.param_groups]
        super().__init__(groups, {})

    def step(self, closure: Callable[[], Any] | None = None) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        loss = closure() if closure else None
        for kind, part in self._parts.items():
            part.param_groups = [group for group in self.param_groups if group[KIND] == kind]
            part.state = self.state
            part.step()
        return loss


class SpreadMuon(torch.optim.Muon):
    """PyTorch's, also where the matrices are shared by rows: the same to the last bit as where they are whole."""

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        if not any(isinstance(each, DTensor) for group in self.param_groups for each in group["params"]):
            return super().step(closure)
        for group in self.param_groups:
            moving: list[Any] = [each for each in group["params"] if each.grad is not None]
            updates = [self._update(each, group) for each in moving]
            numbers = (group["ns_coefficients"], group["ns_steps"], group["eps"])
            rate, decay = group["lr"], group["weight_decay"]
            for matrix, update in zip(moving, spread(moving, updates, partial(_orthogonal, numbers)), strict=True):
                rows = matrix.to_local()
                rows.mul_(1 - rate * decay)
                rows.add_(update, alpha=-_adjust_lr(rate, group["adjust_lr_fn"], matrix.shape))
        return None

    def _update(self, matrix: Any, group: dict[str, Any]) -> Tensor:
        """Of this process's rows, before it is made orthogonal."""
        state = self.state[matrix]
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = torch.zeros_like(matrix.grad)
        gradient, momentum = matrix.grad.to_local(), state["momentum_buffer"].to_local()
        momentum.lerp_(gradient, 1 - group["momentum"])
        return gradient.lerp(momentum, group["momentum"]) if group["nesterov"] else momentum


def _orthogonal(numbers: tuple[Any, int, float], matrix: Tensor) -> Tensor:
    return _zeropower_via_newtonschulz(matrix, *numbers)


def spread(matrices: Sequence[Any], parts: Sequence[Tensor], work: Callable[[Tensor], Tensor]) -> Iterator[Tensor]:
    """What `work` makes of each whole, as this process's rows of it. All that share `matrices` must read to the end."""
    group = _sharing(matrices)
    for start in range(0, len(parts), group.size()):
        turn = slice(start, start + group.size())
        yield from _one_each([each.shape for each in matrices[turn]], parts[turn], work, group)


def _one_each(
    shapes: Sequence[torch.Size], parts: Sequence[Tensor], work: Callable[[Tensor], Tensor], group: Any
) -> Iterator[Tensor]:
    """At most as many matrices as processes: the n-th goes to process n."""
    world, rank = group.size(), group.rank()
    away = [part.numel() for part in parts] + [0] * (world - len(parts))
    whole = shapes[rank] if rank < len(shapes) else torch.Size([0, 0])
    here = [rows * whole[1] for rows in rows_of(whole[0], world)]
    sent = torch.cat([part.bfloat16().flatten() for part in parts])
    matrix = _exchanged(sent, away, here, group).view(whole)
    made = work(matrix) if len(matrix) else matrix
    back = _exchanged(made.flatten(), here, away, group).split(away)
    return (rows.view_as(part) for rows, part in zip(back, parts, strict=False))


def _exchanged(numbers: Tensor, away: list[int], here: list[int], group: Any) -> Tensor:
    received = numbers.new_empty(sum(here))
    dist.all_to_all_single(received, numbers, here, away, group=group)
    return received


def rows_of(rows: int, processes: int) -> list[int]:
    """How many of them each process holds, as PyTorch shards a tensor: equal parts, the last ones shorter or empty."""
    part = -(-rows // processes)
    return [max(0, min(part, rows - rank * part)) for rank in range(processes)]


def _sharing(matrices: Sequence[Any]) -> Any:
    """The processes that hold the rows of these matrices between them."""
    placements = {each.placements if isinstance(each, DTensor) else () for each in matrices}
    by_rows = [place for place in next(iter(placements)) if place == Shard(0)]
    if len(placements) > 1 or len(by_rows) != 1 or {*next(iter(placements))} - {Shard(0), Replicate()}:
        raise UsageError(
            f"Muon knows weights that are shared by rows, as FSDP2 does it, not as {placements}",
            'set training.optimizer = "adamw", or share them by FSDP2 alone',
        )
    mesh = matrices[0].device_mesh
    return mesh.get_group(matrices[0].placements.index(Shard(0)))
