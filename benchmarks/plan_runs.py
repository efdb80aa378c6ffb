"""Measured steps of the real trainer, for `benchmarks/plan.py` to fit costs on and to be tested against.

    python benchmarks/plan_runs.py cpu  --json benchmarks/results/plan.json [--case NAME …]
    python benchmarks/plan_runs.py h200 --json benchmarks/results/plan.json

Random models of several shapes play an environment whose prompts, turns and answers have set lengths. Which runs are
held out is fixed in `CASES`, before anything is measured. On a GPU the clock is the wall's. On a CPU it is the
processor time of a process with one thread, of several the one that worked longest: the machine may have other work,
and on idle cores a step takes as long. The first step is left out, and of a case that is measured again the faster one
is kept. Two runs of `plan.json` with a `source` are not from here but from raw files of this repository.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from composer_replication.environments.protocol import Environment, EpisodeLimits, PlainAnswer
from composer_replication.records import Source, Trace, Turn, content_id

WARM_STEPS, STEPS = 1, 3
SHAPES: dict[str, dict[str, Any]] = {
    "tiny": {"hidden_size": 128, "intermediate_size": 384, "num_hidden_layers": 2, "num_attention_heads": 8,
             "num_key_value_heads": 8, "vocab_size": 512},
    "small": {"hidden_size": 512, "intermediate_size": 1536, "num_hidden_layers": 8, "num_attention_heads": 8,
              "num_key_value_heads": 8, "vocab_size": 8192},
    "smollm2": {"hidden_size": 576, "intermediate_size": 1536, "num_hidden_layers": 30, "num_attention_heads": 9,
                "num_key_value_heads": 3, "vocab_size": 49_152},
    "0.6B": {"hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 28, "num_attention_heads": 16,
             "num_key_value_heads": 8, "vocab_size": 151_936},
    "1.5B": {"hidden_size": 1536, "intermediate_size": 8960, "num_hidden_layers": 28, "num_attention_heads": 12,
             "num_key_value_heads": 2, "vocab_size": 151_936, "tie_word_embeddings": False},
}  # fmt: skip


class Case(NamedTuple):
    shape: str
    rollouts: tuple[int, int]
    """Prompts and group."""
    tokens: tuple[int, int, int, int]
    """Of the prompt, number of turns, tokens of a turn, of an answer."""
    is_held_out: bool = False
    rows: int | None = None
    """Of one pass; the rest is accumulated."""
    sdpo: bool = False
    checkpointing: bool = False
    lora: bool = False
    weights: str = "float32"
    processes: int = 1
    sharded: bool = False


CPU = {
    "tiny": Case("tiny", (8, 8), (64, 2, 16, 8), sdpo=True),
    "tiny, longer": Case("tiny", (4, 4), (128, 1, 64, 8)),
    "tiny, few": Case("tiny", (4, 2), (64, 1, 8, 8)),
    "small": Case("small", (2, 2), (64, 2, 16, 8)),
    "small, accumulated": Case("small", (2, 4), (96, 1, 24, 8), rows=4, sdpo=True),
    "small, checkpointing": Case("small", (2, 2), (64, 1, 48, 8), checkpointing=True),
    "smollm2": Case("smollm2", (1, 2), (64, 1, 12, 8)),
    "smollm2, turns": Case("smollm2", (2, 2), (40, 2, 6, 8), sdpo=True),
    "tiny, three turns": Case("tiny", (8, 4), (96, 3, 24, 8), True, sdpo=True),
    "small, two turns": Case("small", (2, 4), (80, 2, 16, 8), True, checkpointing=True, sdpo=True),
    "smollm2, accumulated": Case("smollm2", (2, 2), (56, 2, 8, 8), True, rows=2),
    "tiny x 2": Case("tiny", (8, 8), (64, 2, 16, 8), processes=2),
    "small x 2": Case("small", (2, 4), (64, 2, 12, 8), processes=2),
    "smollm2 x 2": Case("smollm2", (2, 2), (48, 1, 8, 8), processes=2),
    "tiny x 2, longer": Case("tiny", (8, 4), (128, 1, 48, 8), True, processes=2),
    "small x 2, accumulated": Case("small", (2, 4), (96, 1, 16, 8), True, rows=2, processes=2),
    "smollm2 x 2, turns": Case("smollm2", (2, 2), (56, 2, 6, 8), True, processes=2),
    "small / 2": Case("small", (2, 4), (64, 2, 12, 8), processes=2, sharded=True),
    "tiny / 2": Case("tiny", (8, 8), (64, 2, 16, 8), processes=2, sharded=True),
    "small / 2, longer": Case("small", (2, 4), (112, 1, 20, 8), True, processes=2, sharded=True),
}
H200 = {
    "smollm2": Case("smollm2", (16, 8), (128, 2, 32, 16), sdpo=True),
    "smollm2, long": Case("smollm2", (8, 4), (1024, 1, 128, 16)),
    "smollm2, many": Case("smollm2", (32, 8), (128, 4, 40, 16), rows=64),
    "smollm2, checkpointing": Case("smollm2", (16, 4), (512, 1, 64, 16), checkpointing=True, sdpo=True),
    "small": Case("small", (16, 8), (128, 2, 32, 16)),
    "0.6B": Case("0.6B", (16, 4), (256, 1, 64, 16), rows=32),
    "0.6B, turns": Case("0.6B", (8, 8), (256, 3, 48, 16), rows=16, checkpointing=True, sdpo=True),
    "1.5B, adapters": Case("1.5B", (8, 8), (256, 2, 64, 16), rows=16, lora=True, checkpointing=True, sdpo=True,
                           weights="bfloat16"),
    "1.5B, adapters, long": Case("1.5B", (8, 4), (1024, 1, 128, 16), rows=8, lora=True, weights="bfloat16"),
    "smollm2, four turns": Case("smollm2", (16, 8), (110, 4, 40, 24), True, sdpo=True),
    "smollm2, accumulated": Case("smollm2", (16, 8), (512, 1, 96, 16), True, rows=16),
    "0.6B, long": Case("0.6B", (8, 8), (768, 1, 96, 16), True, rows=16, sdpo=True),
    "0.6B, adapters": Case("0.6B", (16, 8), (256, 2, 64, 16), True, rows=32, lora=True, weights="bfloat16"),
    "1.5B, all weights": Case("1.5B", (8, 8), (384, 1, 96, 16), True, rows=16, checkpointing=True),
    "1.5B, adapters, many": Case("1.5B", (16, 8), (192, 2, 96, 16), True, rows=16, lora=True, checkpointing=True,
                                 sdpo=True, weights="bfloat16"),
}  # fmt: skip
CASES = {"cpu": CPU, "h200": H200}


class Stretch:
    """A prompt of so many words, letters and blanks in turn."""

    def __init__(self, number: int, words: int) -> None:
        self.task_id, self.labels = f"stretch/{number}", {}
        letters = ("abcdefgh"[(number + place) % 8] for place in range(words // 2))
        self.messages = [{"role": "user", "content": " ".join(letters)}]


class Walk:
    tools, evidence, reward = (), None, 0.0

    def __init__(self, task: Stretch, turns: int, words: int) -> None:
        self.task, self.messages = task, task.messages
        self._turns, self._answer, self._said = turns, " ".join("b" * (words // 2)), []

    @property
    def finished(self) -> bool:
        return len(self._said) >= self._turns

    def step(self, turn: str) -> PlainAnswer:
        self._said.append(turn)
        return PlainAnswer(self._answer, failed=self.finished)

    def trace(self, source_model: str, sample: int) -> Trace:
        messages, turns = list(self.messages), []
        for number, said in enumerate(self._said):
            failed = number + 1 == self._turns
            turns.append(Turn(start=len(messages), end=len(messages) + 2, source_model=source_model))
            messages += [
                {"role": "assistant", "content": said},
                {"role": "tool", "content": "no file app.py" if failed else self._answer, "is_error": failed},
            ]
        return Trace(
            trace_id=content_id(self.task.task_id, source_model, sample),
            source=Source(agent="treadmill"),
            task_id=self.task.task_id,
            messages=tuple(messages),
            turns=tuple(turns),
            outcome=0.0,
        )

    def close(self) -> None: ...


class Treadmill(Environment):
    """Episodes of one length; the last turn of each is an error."""

    name = "treadmill"

    def __init__(self, case: Case) -> None:
        self._prompt, self._turns, turn_tokens, self._answer = case.tokens
        room = self._turns * (turn_tokens + self._answer + 4)
        self.limits = EpisodeLimits(turns=self._turns, completion_tokens=room)

    def tasks(self, split: str, use: str = "training") -> list[Stretch]:
        return [Stretch(number, self._prompt) for number in range(512)]

    def task(self, task_id: str) -> Stretch:
        return Stretch(int(task_id.removeprefix("stretch/")), self._prompt)

    def start(self, task: Any) -> Walk:
        return Walk(task, self._turns, self._answer)

    def vocabulary(self) -> list[str]:
        return ["a b c d e f g h"]


def now() -> float:
    import torch

    if torch.cuda.is_available():
        torch.cuda.synchronize()
        return time.perf_counter()
    return time.process_time()


def measure(case: Case) -> dict[str, Any]:
    """In this process, which may be one of several."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM, TrainerCallback

    from composer_replication.cli.common import quiet_libraries
    from composer_replication.progress import Silent
    from composer_replication.training.machine import MemoryMeter
    from composer_replication.training.models.loading import Policy, device_type, tiny_tokenizer
    from composer_replication.training.models.tokens import ChatTokens
    from composer_replication.training.rollouts.worker import RolloutWorker
    from composer_replication.training.train import train

    quiet_libraries()
    config, environment = settings(case), Treadmill(case)
    ends: list[float] = []
    sampled: list[float] = []
    lengths: list[int] = []
    sites: list[float] = []

    class Watch(TrainerCallback):
        def on_step_end(self, *_: Any, **__: Any) -> None:
            ends.append(now())

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
            sites.append((logs or {}).get("sdpo/sites", 0.0))

    play = RolloutWorker.run

    def timed(self: Any, *arguments: Any) -> Any:
        started = now()
        played = play(self, *arguments)
        sampled.append(now() - started)
        lengths.extend(len(one.context_ids) for one in played)
        return played

    RolloutWorker.run = timed  # type: ignore[method-assign]
    tokens = ChatTokens(tiny_tokenizer(environment))
    marks = {"pad_token_id": tokens.tokenizer.pad_token_id, "eos_token_id": tokens.tokenizer.eos_token_id}
    shape = {"tie_word_embeddings": True, "max_position_embeddings": 4096, **SHAPES[case.shape]}
    torch.manual_seed(0)
    meter = MemoryMeter()
    with torch.device(device_type()):
        model = LlamaForCausalLM(LlamaConfig(**shape, **marks, bos_token_id=None)).to(getattr(torch, case.weights))
    try:
        with tempfile.TemporaryDirectory() as scratch:
            policy = Policy("random", model.eval(), tokens)
            train(policy, config, environment, [], Path(scratch) / "training", Silent(), [Watch()])
    finally:
        RolloutWorker.run = play  # type: ignore[method-assign]
    peak_bytes = meter.peak_bytes()
    del policy, model
    gc.collect()
    torch.cuda.empty_cache()
    took = [after - before for before, after in zip(ends[WARM_STEPS - 1 :], ends[WARM_STEPS:], strict=False)]
    return {
        "step_s": [round(each, 4) for each in took],
        "sampling_s": [round(each, 4) for each in sampled[WARM_STEPS:]],
        "mean_tokens": round(statistics.mean(lengths), 1),
        "longest_tokens": max(lengths),
        "sites": statistics.median(sites),
        "peak_mib": round(peak_bytes / 2**20, 1),
    }


def settings(case: Case) -> Any:
    from composer_replication.config import Config, HardwareConfig, TrainingConfig
    from composer_replication.objective import GrpoSettings, SdpoSettings

    return Config(
        training=TrainingConfig(
            steps=WARM_STEPS + STEPS,
            prompts_per_step=case.rollouts[0],
            group_size=case.rollouts[1],
            learning_rate=1e-6,
            max_turn_tokens=case.tokens[2],
            token_weights=False,
        ),
        channels=(GrpoSettings(), *([SdpoSettings(source="rollouts", teacher="ema")] if case.sdpo else [])),
        hardware=HardwareConfig(
            rollouts_per_device=case.rows,
            gradient_checkpointing=case.checkpointing,
            lora_rank=32 if case.lora else None,
            weights=case.weights,
        ),
    )


def apart(kind: str, names: list[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Cases that want the same processes, one after another, and of each the process that worked longest."""
    count = CASES[kind][names[0]].processes
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    group = {"WORLD_SIZE": str(count), "LOCAL_WORLD_SIZE": str(count), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    started: list[subprocess.Popen[str]] = []
    for rank in range(count):
        place = {**group, "RANK": str(rank), "LOCAL_RANK": str(rank)} if count > 1 else {}
        calm = {"OMP_NUM_THREADS": "1", "ACCELERATE_USE_CPU": "true"} if kind == "cpu" else {}
        command = [sys.executable, __file__, kind, "--inside", *(word for name in names for word in ("--case", name))]
        environment = {**os.environ, **place, **calm}
        started.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True))  # noqa: S603
    for name, *lines in zip(names, *(process.stdout or () for process in started), strict=False):
        yield name, max(map(json.loads, lines), key=lambda one: sum(one["step_s"]))
    if any(process.wait() for process in started):
        raise SystemExit(f"{kind}: a process failed")


def inside(kind: str, names: list[str]) -> None:
    import torch

    if kind == "cpu":
        torch.set_num_threads(1)
    if CASES[kind][names[0]].sharded:
        share_weights()
    for name in names:
        print(json.dumps(measure(CASES[kind][name])), flush=True)


def share_weights() -> None:
    """FSDP2 on a CPU: accelerate asks for an accelerator, and is told that a CPU will do."""
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from tests.distributed.worker import use_fsdp2

    use_fsdp2()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=CASES)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--case", action="append")
    parser.add_argument("--inside", action="store_true", help="In this process, which another one started.")
    given = parser.parse_args()
    names: list[str] = given.case or list(CASES[given.kind])
    if given.inside:
        inside(given.kind, names)
        return
    for alike in groupby(names, lambda name: CASES[given.kind][name][-2:]):
        for name, found in apart(given.kind, list(alike[1])):
            keep(given.json, given.kind, name, found)
            print(given.kind, name, json.dumps(found), flush=True)


def machine(kind: str) -> dict[str, Any]:
    import torch

    if kind != "cpu":
        found = torch.cuda.get_device_properties(0)
        return {"device": found.name, "memory_gib": found.total_memory >> 30}
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {"device": f"one core of {platform.machine()}", "memory_gib": memory >> 30}


def keep(path: Path | None, kind: str, name: str, found: dict[str, Any]) -> None:
    """Of a case that was measured before, the faster of both: other work on a machine only adds."""
    if path is None:
        return
    runs = json.loads(path.read_text()) if path.exists() else {}
    runs.setdefault("machines", {}).setdefault(kind, machine(kind))
    before = runs.setdefault(kind, {}).get(name)
    if before is None or min(found["step_s"]) < min(before["step_s"]):
        case = CASES[kind][name]
        runs[kind][name] = {**case._asdict(), **found, "date": time.strftime("%Y-%m-%d")}
    path.write_text(json.dumps(runs, indent=1) + "\n")


if __name__ == "__main__":
    main()
