"""A small network that learns in float64 with nothing around it but FSDP2 and an optimiser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import (
    get_model_state_dict,
    get_optimizer_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn import functional as F
from transformers import LlamaConfig, LlamaForCausalLM

from composer_replication.training.models.muon import muon_with_adamw

from .scenes import whole

STEPS, ROWS, WORDS = 5, 4, 24
RATES = {"lr": 0.02}, {"lr": 0.01}
# Neither the rows of a matrix nor the number of matrices of a layer can be divided by the number of processes.
SIZES = {
    "vocab_size": WORDS, "hidden_size": 18, "intermediate_size": 27, "num_hidden_layers": 3,
    "num_attention_heads": 3, "num_key_value_heads": 1, "head_dim": 6, "initializer_range": 0.3,
}  # fmt: skip


def _stock_muon(model: Any) -> list[torch.optim.Optimizer]:
    """As one would write it without knowing of shards."""
    parts = muon_with_adamw(model, *RATES).param_groups
    return [torch.optim.Muon(parts[0]["params"], **RATES[0]), torch.optim.AdamW(parts[1]["params"], **RATES[1])]


def _muon(model: Any) -> list[torch.optim.Optimizer]:
    return [muon_with_adamw(model, *RATES)]


SCENES = {"muon": _muon, "resumed_muon": _muon, "stock_muon": _stock_muon}


def run(name: str, world: int = 1, shared_by: int = 1, checkpoint: Path | None = None) -> dict[str, torch.Tensor]:
    """The weights after the last step. Each process reads its rows of the batch.

    With a `checkpoint` what was learnt is written there after the second step, and others go on from it.
    """
    mesh, rank = (_mesh(world, shared_by), torch.distributed.get_rank()) if world > 1 else (None, 0)
    model = _new_model(mesh)
    optimizers, draw = SCENES[name](model), torch.Generator().manual_seed(4)
    for step in range(STEPS):
        if checkpoint and step == 2:
            dcp.save(_state(model, optimizers[0]), checkpoint_id=checkpoint)
            model = _new_model(mesh)
            optimizers = SCENES[name](model)
            kept = _state(model, optimizers[0])
            dcp.load(kept, checkpoint_id=checkpoint)
            set_model_state_dict(model, kept["model"])
            set_optimizer_state_dict(model, optimizers[0], kept["optimizer"])
        ids = torch.randint(0, WORDS, (ROWS, 9), generator=draw)[rank * ROWS // world : (rank + 1) * ROWS // world]
        logits = model(input_ids=ids, use_cache=False).logits[:, :-1]
        F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten()).backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
    return {f"weight/{name}": whole(parameter) for name, parameter in model.named_parameters()}


def _new_model(mesh: Any) -> Any:
    torch.manual_seed(3)
    model: Any = LlamaForCausalLM(LlamaConfig(**SIZES)).double()
    for module in (*model.model.layers, model) if mesh else ():
        fully_shard(module, mesh=mesh)
    return model


def _mesh(world: int, shared_by: int) -> Any:
    if world == shared_by:
        return init_device_mesh("cpu", (world,))
    return init_device_mesh("cpu", (world // shared_by, shared_by), mesh_dim_names=("replicate", "shard"))


def _state(model: Any, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """As accelerate takes it apart for a checkpoint of shards."""
    return {"model": get_model_state_dict(model), "optimizer": get_optimizer_state_dict(model, optimizer)}
