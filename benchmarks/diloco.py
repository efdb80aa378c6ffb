"""Two replicas of DiLoCo against one and against DDP: bytes per token over the wire, and held-out success.

    python benchmarks/diloco.py [--seeds 0 1] [--json benchmarks/results/diloco.json]

Toolbox, tiny model, channel 1 alone, one thread per process, all on this machine. Each arm starts from the same
warmed-up policy and trains on as many tokens in all: one process with 16 prompts per step, two with 8 each. Bytes are
what the real collectives were given: gloo's allreduce under torchft, DDP's gradient buckets in its communication hook.
TRL's own small gathers under DDP are not counted, nor is the lighthouse's talk.
"""

import argparse
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

from composer_replication.config import Config
from composer_replication.evaluation.compare import TaskOutcome
from composer_replication.evaluation.stats import mean_interval
from composer_replication.pipeline import run_stage
from composer_replication.progress import Silent
from composer_replication.runs import Run

HERE = Path(__file__).parents[1]
ARMS = {
    "one": {"replicas": 1, "prompts": 16, "diloco": ""},
    "half the tokens": {"replicas": 1, "prompts": 8, "diloco": ""},
    "diloco": {"replicas": 2, "prompts": 8, "diloco": "sync_every = 4"},
    "diloco, 2 fragments": {"replicas": 2, "prompts": 8, "diloco": "sync_every = 4\nfragments = 2"},
    "plain average": {
        "replicas": 2, "prompts": 8, "diloco": "sync_every = 4\nouter_learning_rate = 1.0\nouter_momentum = 0.0",
    },
    "plain average, 2 fragments": {
        "replicas": 2, "prompts": 8,
        "diloco": "sync_every = 4\nfragments = 2\nouter_learning_rate = 1.0\nouter_momentum = 0.0",
    },
}  # fmt: skip
CONFIG = """
seed = {seed}
[training]
steps = {steps}
prompts_per_step = {prompts}
[[channels]]
name = "grpo"
[evaluation]
tasks = {tasks}
splits = ["heldout"]
[diloco]
lighthouse = "http://127.0.0.1:{port}"
patience_s = 1200
heartbeat_timeout_s = 10
{diloco}
"""
DDP_STEPS = 4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--arms", nargs="+", choices=list(ARMS), default=list(ARMS))
    parser.add_argument("--steps", type=int, default=28)
    parser.add_argument("--tasks", type=int, default=512)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        measured = [
            result
            for seed in asked.seeds
            for result in of_seed(Path(folder) / str(seed), seed, asked.arms, asked.steps, asked.tasks)
        ]
    for result in measured:
        print(json.dumps(result))
    if asked.json:
        asked.json.write_text(json.dumps({"steps": asked.steps, "measured": measured}, indent=2) + "\n")


def of_seed(folder: Path, seed: int, arms: list[str], steps: int, tasks: int) -> list[dict]:
    folder.mkdir()
    base = folder / "base"
    write_config(folder / "base.toml", seed, steps, tasks, prompts=16, diloco="")
    run_stage(Run.start(base, config_of(folder / "base.toml")), "policy", Silent())
    results = [ddp_bytes(folder, base, seed, tasks)]
    for arm in arms:
        results.append(of_arm(folder / arm.replace(" ", "-"), base, arm, seed, steps, tasks))
        print(json.dumps(results[-1]), file=sys.stderr, flush=True)
    return results


def of_arm(folder: Path, base: Path, arm: str, seed: int, steps: int, tasks: int) -> dict:
    folder.mkdir()
    settings = ARMS[arm]
    config = write_config(folder / "config.toml", seed, steps, tasks, settings["prompts"], settings["diloco"])
    runs = [folder / f"replica-{number}" for number in range(settings["replicas"])]
    for run in runs:
        begin(run, base, config)
    words = ["--diloco"] if settings["diloco"] else []
    lighthouse = start("train", runs[0], "--lighthouse") if words else None
    processes = [start("train", run, *words, REPLICA_GROUP_ID=str(number)) for number, run in enumerate(runs)]
    assert [process.wait() for process in processes] == [0] * len(runs)
    if lighthouse:
        lighthouse.terminate()
        lighthouse.wait()
    recompose("evaluate", runs[0])
    hashes = {(run / "training" / "model" / "model.safetensors").read_bytes() for run in runs}
    assert len(hashes) == 1, "the replicas ended with different weights"
    tokens = [trained_tokens(run) for run in runs]
    summed = [moved_bytes(run) for run in runs] if words else [0]
    return {
        "arm": arm, "seed": seed, "steps": steps, "replicas": len(runs), "tokens": sum(tokens),
        "summed_bytes_per_replica": summed[0], "bytes_per_token": summed[0] / tokens[0], **success(runs[0]),
    }  # fmt: skip


def success(run: Path) -> dict:
    outcomes = list(Run.open(run).stage("evaluation").read(TaskOutcome))
    return {
        phase: mean_interval([outcome.reward for outcome in outcomes if outcome.phase == phase]).model_dump()
        for phase in ("before", "after")
    }


def moved_bytes(run: Path) -> int:
    return json.loads((run / "training" / "diloco.jsonl").read_text().splitlines()[-1])["summed_bytes"]


def trained_tokens(run: Path) -> int:
    lines = [json.loads(line) for line in (run / "training" / "metrics.jsonl").read_text().splitlines()]
    return int(max(line.get("num_tokens", 0) for line in lines))


def ddp_bytes(folder: Path, base: Path, seed: int, tasks: int) -> dict:
    """Of a short DDP run in two processes: every step sends the same."""
    config = write_config(folder / "ddp.toml", seed, DDP_STEPS, tasks, prompts=16, diloco="")
    run, port = folder / "ddp", free_port()
    begin(run, base, config)
    processes = [
        start(
            "--ddp", run, program=__file__, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE="2", LOCAL_WORLD_SIZE="2",
            MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), ACCELERATE_USE_CPU="true",
        )
        for rank in range(2)
    ]  # fmt: skip
    assert [process.wait() for process in processes] == [0, 0]
    summed, tokens = int((run / "summed").read_text()), trained_tokens(run)
    # TRL counts the tokens of all processes; each sums every gradient for its half of them.
    return {
        "arm": "DDP", "seed": seed, "steps": DDP_STEPS, "replicas": 2, "tokens": tokens,
        "summed_bytes_per_replica": summed, "bytes_per_token": summed / (tokens / 2),
    }  # fmt: skip


def ddp_worker(run: str) -> None:
    """`recompose train RUN` as one of two processes, with DDP's buckets counted."""
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
    from torch.nn.parallel import DistributedDataParallel

    from composer_replication.__main__ import main as recompose_main

    summed, make = [0], DistributedDataParallel.__init__

    def counting(group: Any, bucket: Any) -> Any:
        summed[0] += bucket.buffer().nbytes
        return allreduce_hook(group, bucket)

    def init(self: Any, *given: Any, **named: Any) -> None:
        make(self, *given, **named)
        self.register_comm_hook(None, counting)

    DistributedDataParallel.__init__ = init
    sys.argv = ["recompose", "train", run]
    try:
        recompose_main()
    finally:
        if os.environ["RANK"] == "0":
            (Path(run) / "summed").write_text(str(summed[0]))


def begin(run: Path, base: Path, config: Path) -> None:
    """A run with the policy of another one."""
    Run.start(run, config_of(config))
    shutil.copytree(base / "policy", run / "policy")


def config_of(path: Path) -> Config:
    return Config.model_validate(tomllib.loads(path.read_text()))


def write_config(path: Path, seed: int, steps: int, tasks: int, prompts: int, diloco: str) -> Path:
    path.write_text(
        CONFIG.format(seed=seed, steps=steps, tasks=tasks, prompts=prompts, diloco=diloco, port=free_port())
    )
    return path


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def start(*words: object, program: str = "", **variables: str) -> subprocess.Popen[bytes]:
    own = {"PYTHONPATH": str(HERE / "src"), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    front = [program] if program else ["-m", "composer_replication"]
    return subprocess.Popen(  # noqa: S603 - this interpreter, our own arguments
        [sys.executable, *front, *map(str, words)], env={**os.environ, **own, **variables}, stdout=subprocess.DEVNULL
    )


def recompose(*words: object) -> None:
    assert start(*words).wait() == 0, words


if __name__ == "__main__":
    if sys.argv[1:2] == ["--ddp"]:
        ddp_worker(sys.argv[2])
    else:
        main()
