"""What each channel does to the weights, measured on the last decoder layer: exact there, and cheap.

Shards of FSDP2 cannot be asked that way; there the gradient at the last hidden states stands in, and a channel that
has its own backward pass is not measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.distributed.fsdp import FSDPModule

from ..models.states import language_model


def probed_parameters(model: Any) -> list[Tensor]:
    """Trainable weights of the last layer; empty where they are sharded or the model has no list of layers."""
    layers: Any = getattr(language_model(model).base_model, "layers", None)
    if not layers or any(isinstance(module, FSDPModule) for module in model.modules()):
        return []
    return [parameter for parameter in layers[-1].parameters() if parameter.requires_grad]


def probe(model: Any, term: Tensor, targets: Sequence[Tensor]) -> list[Tensor | None]:
    """Gradient of one channel's term; the graph stays for the backward pass of the step."""
    if not targets or not term.requires_grad:
        return [None] * len(targets)
    found = torch.autograd.grad(term, list(targets), retain_graph=True, allow_unused=True)
    head = language_model(model).get_output_embeddings()
    if isinstance(head, FSDPModule):
        # FSDP2 frees the gathered head after any backward pass; the graph of the step still needs it.
        head.unshard()
    return list(found)
