"""Several processes on this machine, bounded in time.

Most of the time of a short job goes into imports. So one process is launched, which imports everything and then forks
the others, one group after the other.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file

REPOSITORY = Path(__file__).parents[2]
# Without the garbage collector, which `fork` turns on again: imports take a third less.
RUN_MODULE = "import gc, runpy, sys; gc.disable(); runpy.run_module(sys.argv.pop(1), run_name='__main__')"


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
    """By kind and scene, what each process saw. A process that fails or hangs ends all, with what it said.

    A kind begins with the number of its processes.
    """
    words = [f"{kind}/{name}" for kind, names in scenes.items() for name in names]
    run_module("tests.distributed.worker", [str(folder), *words], folder, timeout_s)
    return {
        kind: {name: [_read(folder / f"{kind}-{name}-{rank}") for rank in range(int(kind[0]))] for name in names}
        for kind, names in scenes.items()
    }


def run_module(module: str, arguments: list[str], folder: Path, timeout_s: float) -> None:
    """A module that forks; what it and its processes say is shown where one of them fails."""
    said = folder / "said.txt"
    with said.open("w") as out:
        parent = subprocess.Popen(
            [sys.executable, "-c", RUN_MODULE, module, *arguments],
            cwd=REPOSITORY,
            env={**os.environ, "ACCELERATE_USE_CPU": "true", "OMP_NUM_THREADS": "1"},
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
        try:
            code = parent.wait(timeout_s)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            if parent.poll() is None:
                os.killpg(parent.pid, signal.SIGKILL)
                parent.wait()
    assert code == 0, f"exit code {code} (None: not done within {timeout_s} s)\n{said.read_text()[-8000:]}"


def fork(world: int, work: Callable[[], None]) -> None:
    """`work` in as many processes, each placed as a launcher would; for a process that has no threads yet."""
    # What was imported stays: the trainers' calls of the collector would look through all of it each time.
    gc.freeze()
    gc.enable()
    port = free_port()
    children = [os.fork() or _child(rank, world, port, work) for rank in range(world)]
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    if any(codes):
        sys.exit(f"exit codes of {world} processes: {codes}")


def _child(rank: int, world: int, port: int, work: Callable[[], None]) -> int:
    os.environ |= placed(rank, world, port)
    code = 1
    try:
        work()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def placed(rank: int, world: int, port: int) -> dict[str, str]:
    numbers = {
        "RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": world, "LOCAL_WORLD_SIZE": world, "MASTER_PORT": port,
    }  # fmt: skip
    return {"MASTER_ADDR": "127.0.0.1", **{key: str(value) for key, value in numbers.items()}}


def run_pair(arguments: list[str], folder: Path, timeout_s: float) -> list[Ended]:
    """The interpreter with these arguments, in two processes, as a launcher would start it."""
    port, processes = free_port(), list[subprocess.Popen[str]]()
    for rank in range(2):
        environment = {**os.environ, "ACCELERATE_USE_CPU": "true", "OMP_NUM_THREADS": "1", **placed(rank, 2, port)}
        with (folder / f"out-{rank}.txt").open("w") as out, (folder / f"err-{rank}.txt").open("w") as err:
            command = [sys.executable, *arguments]
            processes.append(subprocess.Popen(command, cwd=REPOSITORY, env=environment, stdout=out, stderr=err))
    codes: list[int | None] = []
    for process in processes:
        try:
            codes.append(process.wait(timeout_s))
        except subprocess.TimeoutExpired:
            codes.append(None)
            process.kill()
            process.wait()
    said = [[(folder / f"{stream}-{rank}.txt").read_text() for stream in ("out", "err")] for rank in range(2)]
    return [Ended(code, out, err) for code, (out, err) in zip(codes, said, strict=True)]


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def _read(path: Path) -> Seen:
    return Seen(load_file(path.with_suffix(".safetensors")), json.loads(path.with_suffix(".json").read_text()))
