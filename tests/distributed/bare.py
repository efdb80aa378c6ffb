"""A small network that learns in float64 with nothing around it but FSDP2 and an optimiser."""

from __future__ import annotations

from typing import Any

import torch
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


SCENES = {"muon": lambda model: [muon_with_adamw(model, *RATES)], "stock_muon": _stock_muon}


def run(optimizers_of: Any, world: int = 1, shared_by: int = 1) -> dict[str, torch.Tensor]:
    """The weights after the last step. Each process reads its rows of the batch."""
    torch.manual_seed(3)
    model: Any = LlamaForCausalLM(LlamaConfig(**SIZES)).double()
    rank = 0
    if world > 1:
        replicas = world // shared_by
        shape, names = ((replicas, shared_by), ("replicate", "shard")) if replicas > 1 else ((world,), ("shard",))
        mesh, rank = init_device_mesh("cpu", shape, mesh_dim_names=names), torch.distributed.get_rank()
        for module in (*model.model.layers, model):
            fully_shard(module, mesh=mesh)
    optimizers, draw = optimizers_of(model), torch.Generator().manual_seed(4)
    for _ in range(STEPS):
        ids = torch.randint(0, WORDS, (ROWS, 9), generator=draw)[rank * ROWS // world : (rank + 1) * ROWS // world]
        logits = model(input_ids=ids, use_cache=False).logits[:, :-1]
        F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten()).backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
    return {f"weight/{name}": whole(parameter) for name, parameter in model.named_parameters()}
