"""What each channel does to the weights in a step, measured on the last decoder layer: exact there, and cheap.

Gradients of the last layer are summed over all micro-steps and processes before their norm is taken, so that it does
not matter how a step is cut. Shards of FSDP2 cannot be asked that way; there the gradient at the last hidden states
stands in, without cosines, and a channel that has its own backward pass is not measured.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.distributed.fsdp import FSDPModule

from composer_replication.losses import flat_cosine, gradient_norm

from ..models.states import language_model
from .engine import Engine

POLICY = "policy"


class StepGradients:
    """One step's gradients by channel, each times its weight."""

    def __init__(self) -> None:
        self._sums: dict[str, Tensor] = {}
        self._squares: dict[str, Tensor] = {}

    def add(self, name: str, grads: Sequence[Tensor], weight: float = 1.0) -> None:
        """Of parameters, which are the same in every micro-step and process."""
        if grads:
            flat = torch.cat([grad.flatten().float() for grad in grads])
            whole = self._sums.setdefault(name, torch.zeros_like(flat))
            whole.add_(flat, alpha=weight)

    def add_part(self, name: str, grads: Sequence[Tensor], weight: float = 1.0) -> None:
        """Of states, which are others each time: parts of one long vector."""
        if grads:
            square = (weight * gradient_norm(grads)) ** 2
            self._squares[name] = self._squares.get(name, grads[0].new_zeros(())).float() + square

    def take(self, engine: Engine) -> tuple[dict[str, float], dict[str, float]]:
        """Norms, and cosines with the policy's; the next step begins. Every process must call this."""
        sums = {name: engine.mean(whole) for name, whole in self._sums.items()}
        squares = {name: engine.mean(square).item() for name, square in self._squares.items()}
        self._sums, self._squares = {}, {}
        norms = {name: gradient_norm([whole]) for name, whole in sums.items()}
        norms |= {name: math.sqrt(square / engine.processes) for name, square in squares.items()}
        others = sums.keys() - {POLICY} if POLICY in sums else set[str]()
        return norms, {name: flat_cosine([sums[POLICY]], [sums[name]]) for name in others}


def probed_parameters(model: Any) -> list[Tensor]:
    """Trainable weights of the last layer; empty where they are sharded or the model has no list of layers."""
    layers: Any = getattr(language_model(model).base_model, "layers", None)
    if not layers or any(isinstance(module, FSDPModule) for module in model.modules()):
        return []
    return [parameter for parameter in layers[-1].parameters() if parameter.requires_grad]


def probe(model: Any, term: Tensor, targets: Sequence[Tensor]) -> list[Tensor]:
    """Gradient of one channel's term; the graph stays for the backward pass of the step.

    Empty where the term does not reach the targets at all, whatever the data: nothing can be said from there.
    """
    if not targets or not term.requires_grad:
        return [torch.zeros_like(target) for target in targets]
    # Entries may be None, which the stubs do not say.
    found: list[Any] = list(torch.autograd.grad(term, list(targets), retain_graph=True, allow_unused=True))
    head = language_model(model).get_output_embeddings()
    if isinstance(head, FSDPModule):
        # FSDP2 frees the gathered head after any backward pass; the graph of the step still needs it.
        head.unshard()
    if all(grad is None for grad in found):
        return []
    return [torch.zeros_like(target) if grad is None else grad for grad, target in zip(found, targets, strict=True)]
