"""Two processes on this machine, each bounded in time."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file

REPOSITORY = Path(__file__).parents[2]
WORLD = 2


@dataclass(frozen=True)
class Seen:
    """What one process saw in one scene."""

    tensors: dict[str, torch.Tensor]
    logs: list[dict[str, float]]

    def flat(self, prefix: str) -> torch.Tensor:
        return torch.cat([self.tensors[key].flatten() for key in sorted(self.tensors) if key.startswith(prefix)])


def launch(kind: str, names: list[str], folder: Path, timeout_s: float) -> dict[str, list[Seen]]:
    """By scene, what each process saw. A process that fails or hangs ends all, with what it said."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    processes: list[subprocess.Popen[str]] = []
    for rank in range(WORLD):
        placed = {
            "RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": WORLD, "LOCAL_WORLD_SIZE": WORLD,
            "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "OMP_NUM_THREADS": 1,
        }  # fmt: skip
        environment = {**os.environ, "ACCELERATE_USE_CPU": "true", **{key: str(value) for key, value in placed.items()}}
        with (folder / f"said-{rank}.txt").open("w") as said:
            processes.append(
                subprocess.Popen(
                    [sys.executable, "-m", "tests.distributed.worker", kind, str(folder), *names],
                    cwd=REPOSITORY,
                    env=environment,
                    stdout=said,
                    stderr=subprocess.STDOUT,
                    text=True,
                )
            )
    try:
        codes = [process.wait(timeout_s) for process in processes]
    except subprocess.TimeoutExpired:
        codes = [None]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    if codes != [0] * WORLD:
        said = "\n".join((folder / f"said-{rank}.txt").read_text()[-4000:] for rank in range(WORLD))
        raise AssertionError(f"exit codes {codes} (None: not done within {timeout_s} s)\n{said}")
    return {name: [_read(folder / f"{name}-{rank}") for rank in range(WORLD)] for name in names}


def _read(path: Path) -> Seen:
    return Seen(load_file(path.with_suffix(".safetensors")), json.loads(path.with_suffix(".json").read_text()))
