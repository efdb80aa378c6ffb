"""Two processes on this machine, each bounded in time."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
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


@dataclass(frozen=True)
class Ended:
    """How one process ended; no code where it had to be killed."""

    code: int | None
    out: str
    err: str


def launch(scenes: dict[str, list[str]], folder: Path, timeout_s: float) -> dict[str, dict[str, list[Seen]]]:
    """By kind and scene, what each process saw. A process that fails or hangs ends all, with what it said."""
    words = [f"{kind}/{name}" for kind, names in scenes.items() for name in names]
    ended = run_processes(["-m", "tests.distributed.worker", str(folder), *words], folder, timeout_s)
    assert_all_well(ended, timeout_s)
    return {
        kind: {name: [_read(folder / f"{kind}-{name}-{rank}") for rank in range(WORLD)] for name in names}
        for kind, names in scenes.items()
    }


def run_processes(arguments: list[str], folder: Path, timeout_s: float) -> list[Ended]:
    """The interpreter with these arguments, once per process, as a launcher would start it."""
    port = free_port()
    processes: list[subprocess.Popen[str]] = []
    for rank in range(WORLD):
        placed = {
            "RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": WORLD, "LOCAL_WORLD_SIZE": WORLD,
            "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "OMP_NUM_THREADS": 1,
        }  # fmt: skip
        environment = {**os.environ, "ACCELERATE_USE_CPU": "true", **{key: str(value) for key, value in placed.items()}}
        with (folder / f"out-{rank}.txt").open("w") as out, (folder / f"err-{rank}.txt").open("w") as err:
            command = [sys.executable, *arguments]
            processes.append(subprocess.Popen(command, cwd=REPOSITORY, env=environment, stdout=out, stderr=err))
    deadline = time.monotonic() + timeout_s
    codes: list[int | None] = []
    for process in processes:
        try:
            codes.append(process.wait(max(0.0, deadline - time.monotonic())))
        except subprocess.TimeoutExpired:
            codes.append(None)
            process.kill()
            process.wait()
    said = [[(folder / f"{stream}-{rank}.txt").read_text() for stream in ("out", "err")] for rank in range(WORLD)]
    return [Ended(code, out, err) for code, (out, err) in zip(codes, said, strict=True)]


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def assert_all_well(ended: list[Ended], timeout_s: float) -> None:
    codes = [process.code for process in ended]
    if codes != [0] * WORLD:
        said = "\n".join((process.out + process.err)[-4000:] for process in ended)
        raise AssertionError(f"exit codes {codes} (None: not done within {timeout_s} s)\n{said}")


def _read(path: Path) -> Seen:
    return Seen(load_file(path.with_suffix(".safetensors")), json.loads(path.with_suffix(".json").read_text()))
