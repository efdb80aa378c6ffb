"""One process of a group: runs the named scenes one after the other and writes what it saw.

python -m tests.distributed.worker FOLDER KIND/SCENE…, where the kind is ddp or fsdp2, and those of fsdp2 come last
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from accelerate import FullyShardedDataParallelPlugin
from accelerate.state import AcceleratorState
from accelerate.utils import DistributedType
from safetensors.torch import save_file
from torch.distributed.tensor import DTensor

from . import scenes
from .matrix import SCENES


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


def main(folder: Path, names: list[str]) -> None:
    torch.set_num_threads(1)
    rank, world, before = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), "ddp"
    for kind, _, name in (word.partition("/") for word in names):
        if kind != before:
            use_fsdp2()
        before = kind
        trainer = scenes.build(SCENES[name], str(folder / f"trainer-{rank}"), rank, world)
        tensors, logs = scenes.run(trainer)
        assert trainer.accelerator.num_processes == world
        assert any(isinstance(parameter, DTensor) for parameter in trainer.model.parameters()) == (kind == "fsdp2")
        assert (trainer.accelerator.distributed_type == DistributedType.FSDP) == (kind == "fsdp2")
        save_file(
            {key: tensor.contiguous() for key, tensor in tensors.items()}, folder / f"{kind}-{name}-{rank}.safetensors"
        )
        (folder / f"{kind}-{name}-{rank}.json").write_text(json.dumps(logs))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
