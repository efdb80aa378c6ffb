"""What TRL's asynchronous trainer takes for granted of a GPU, for machines without one: a kernel, and a known device.

TRL packs the rollouts of a row into a tree and gives its attention function the tree; that function needs a CUDA
kernel from the hub. Here the same is computed by torch from a mask, which costs memory in the square of a row's tokens.
Passes that are not packed, such as the teacher's, come without a tree and are plain causal attention: the interface
hands no mask on, so their rows must be padded on the right.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from trl.experimental.async_grpo import async_grpo_trainer
from trl.experimental.async_grpo.packing import TREE_ATTENTION, tree_attention


@contextmanager
def without_a_gpu() -> Generator[None]:
    """A trainer can be made inside. TRL asks the device for its peak, for a metric, and fails where there is none."""
    module: Any = async_grpo_trainer
    asked = module.get_peak_flops_per_device
    if not torch.cuda.is_available():
        module.get_peak_flops_per_device = lambda accelerator, dtype: None
    try:
        yield
    finally:
        module.get_peak_flops_per_device = asked


def register_attention() -> None:
    """In the place of TRL's, after a trainer of TRL's was made."""
    AttentionInterface.register(TREE_ATTENTION, attend)


def attend(
    module: Any, query_BHTD: Tensor, key_BKTD: Tensor, value_BKTD: Tensor, attention_mask: Tensor | None, **kwargs: Any
) -> tuple[Tensor, Tensor | None]:
    tree = {name: kwargs[name] for name in kwargs if name.startswith("tree_")}
    if tree and query_BHTD.is_cuda:
        return tree_attention(module, query_BHTD, key_BKTD, value_BKTD, attention_mask, **kwargs)
    plain = {name: value for name, value in kwargs.items() if name not in tree}
    mask_11TT = tree_mask(tree, query_BHTD.shape[2], query_BHTD.device) if tree else None
    return sdpa_attention_forward(module, query_BHTD, key_BKTD, value_BKTD, mask_11TT, **plain)


def tree_mask(tree: dict[str, Any], tokens: int, device: Any) -> Tensor:
    """Each segment sees the path from the root to itself, and itself up to each of its own tokens."""
    seen_TT = torch.zeros(tokens, tokens, dtype=torch.bool, device=device)
    queries, keys = tree["tree_cu_seqlens_q"].tolist(), tree["tree_cu_seqlens_k"].tolist()
    for segment in range(len(queries) - 1):
        own = slice(queries[segment], queries[segment + 1])
        path_S = tree["tree_kv_index"][keys[segment] : keys[segment + 1]]
        size = own.stop - own.start
        block_TS = torch.ones(size, len(path_S), dtype=torch.bool, device=device).tril(len(path_S) - size)
        seen_TT[own.start : own.stop, path_S] = block_TS
    return seen_TT[None, None]
