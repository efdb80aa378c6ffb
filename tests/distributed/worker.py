"""Runs the named scenes in processes that it forks, and writes what each process saw.

python -m tests.distributed.worker FOLDER KIND/SCENE…

A kind is the number of processes and how they work together: ddp, fsdp2, or hsdp (replicas of two that share the
weights); with `bare` the weights are shared without a trainer, and the scene is one of `bare.py`. Each kind has
processes of its own, since the ways to share weights cannot be mixed in one.
"""

from __future__ import annotations

import json
import os
import sys
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from accelerate import FullyShardedDataParallelPlugin
from accelerate.state import AcceleratorState
from accelerate.utils import DistributedType
from safetensors.torch import save_file
from torch.distributed.tensor import DTensor

from . import bare, scenes
from .launch import fork
from .matrix import SCENES

SHARED_BY = 2


def use_fsdp2(ram_efficient: bool = False) -> None:
    """Accelerate offers FSDP to GPUs alone; its plugin and its way of sharding work on a CPU all the same.

    `ram_efficient`: only the main process loads the weights, as the recipes have it.
    """
    os.environ |= {"ACCELERATE_USE_FSDP": "true", "FSDP_VERSION": "2"}
    os.environ["FSDP_CPU_RAM_EFFICIENT_LOADING"] = str(ram_efficient).lower()
    initialise = AcceleratorState.__init__

    def initialise_sharded(self: Any, *arguments: Any, **options: Any) -> None:
        initialise(self, *arguments, **options)
        if self.distributed_type != DistributedType.FSDP:
            self.distributed_type = DistributedType.FSDP
            self.fsdp_plugin = FullyShardedDataParallelPlugin(
                fsdp_version=2, auto_wrap_policy="transformer_based_wrap", transformer_cls_names_to_wrap=[scenes.LAYER],
                cpu_ram_efficient_loading=ram_efficient,
            )  # fmt: skip

    AcceleratorState.__init__ = initialise_sharded


def use_replicas(world: int) -> None:
    """What `accelerate launch --use_parallelism_config` sets."""
    os.environ |= {
        "ACCELERATE_USE_PARALLELISM_CONFIG": "true",
        "PARALLELISM_CONFIG_DP_REPLICATE_SIZE": str(world // SHARED_BY),
        "PARALLELISM_CONFIG_DP_SHARD_SIZE": str(SHARED_BY),
    }


def run_scenes(kind: str, folder: Path, names: list[str]) -> None:
    torch.set_num_threads(1)
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    if "sdp" in kind:
        use_fsdp2()
    if kind.endswith("hsdp"):
        use_replicas(world)
    for name in names:
        tensors, logs = (_bare if kind.endswith("bare") else _trained)(kind, folder, name)
        path = folder / f"{kind}-{name}-{rank}"
        save_file({key: tensor.contiguous() for key, tensor in tensors.items()}, path.with_suffix(".safetensors"))
        path.with_suffix(".json").write_text(json.dumps(logs))
    dist.destroy_process_group()


def _bare(kind: str, folder: Path, name: str) -> Any:
    if not dist.is_initialized():
        dist.init_process_group("gloo")
    checkpoint = folder / f"{kind}-checkpoint" if name.startswith("resumed") else None
    return bare.run(name, int(os.environ["WORLD_SIZE"]), SHARED_BY, checkpoint), []


def _trained(kind: str, folder: Path, name: str) -> Any:
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    trainer = scenes.build_exactly(SCENES[name], str(folder / f"trainer-{kind}-{rank}"), rank, world)
    seen = scenes.run(trainer)
    shards = [each.device_mesh.shape for each in trainer.model.parameters() if isinstance(each, DTensor)]
    expected = {"ddp": [], "fsdp2": [(world,)], "hsdp": [(world // SHARED_BY, SHARED_BY)]}[kind[1:]]
    assert trainer.accelerator.num_processes == world and sorted(set(shards)) == expected
    assert (trainer.accelerator.distributed_type == DistributedType.FSDP) == bool(expected)
    return seen


def main(folder: Path, words: list[str]) -> None:
    for kind, group in groupby((word.split("/") for word in words), key=lambda word: word[0]):
        fork(int(kind[0]), partial(run_scenes, kind, folder, [name for _, name in group]))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
