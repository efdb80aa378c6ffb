"""The jobs of the queue. Each reads the tasks and earlier results and writes one file of JSON lines.

Lines, by `line`: `run` (settings, costs, versions, hashes of the adapters before and after), `step` (one per optimiser
step: all that was logged, of each rollout its task, its reward and how many of its turns were hinted at, and what the
environment has in `noted`), `sample` (some rollouts, with the feedback that the teacher read), `alarm`, and `task`
(each measured task with all its attempts: what was said, the reward of each, and whether it is the full one).
"""

from __future__ import annotations

import hashlib
import importlib
import json
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from transformers import TrainerCallback

import composer_replication
from composer_replication.config import Config
from composer_replication.environments.code.environment import CodeEnvironment
from composer_replication.environments.code.tasks.store import read_tasks
from composer_replication.environments.code.tasks.task import AskedTask
from composer_replication.environments.protocol import TRAIN
from composer_replication.errors import RecomposeError
from composer_replication.origin import made_with
from composer_replication.progress import Silent
from composer_replication.runs import write_atomically
from composer_replication.training.backends.trl.checkpoints import latest, steps_held
from composer_replication.training.backends.trl.trainer import ComposerReplicationTrainer
from composer_replication.training.lessons.online_sites import Rolled
from composer_replication.training.metrics import StepLines
from composer_replication.training.models.loading import Policy, load_policy
from composer_replication.training.rollouts.playing import play_tasks
from composer_replication.training.rollouts.samples import RolloutSamples, step_of
from composer_replication.training.train import train
from composer_replication.training.warmup import warm_up
from shared.result_lines import read_result, write_result

from .memory import Bare, likeness
from .plan import Plan, RunName, hash_of_adapters

FIRST_DRAW = {"start": 1_000, "before": 2_000, "memory": 3_000, "segment": 4_000}
"""Seeds of attempts, so that no two kinds of measurement share their draws."""
BEGUN, ROLLOUTS = "begun.json", "rollouts.jsonl"
"""Beside the checkpoints: what the last segment began with; the rollouts of each step."""
WITHOUT_A_LABEL = "none"
SIDES = ("train", "validation", "test")


def teach(plan: Plan, tasks: Sequence[Path], result: Path) -> None:
    """Adapters from old logs of the environment, beside the result. All that follows begins with them merged in."""
    from peft import get_peft_model

    began, config = time.monotonic(), plan.config()
    environment = opened(plan, config, tasks)
    policy = untaught(config, environment)
    model = get_peft_model(policy.model, config.hardware.lora_config())
    if config.hardware.gradient_checkpointing:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    losses: list[float] = []
    warm_up(model, policy.tokens, environment, config.warmup, config.seed, lambda step, loss: losses.append(loss))
    halves = {name: tensor.to(torch.bfloat16) for name, tensor in model.state_dict().items() if "lora_" in name}
    model.peft_config["default"].base_model_name_or_path = config.model.name
    model.save_pretrained(plan.taught, state_dict=halves, save_embedding_layers=False)
    (plan.taught / "README.md").unlink()
    about = {"line": "run", "config": config.model_dump(mode="json"), "losses": losses, "taught": plan.taught_hash()}
    write_result(result, [{**about, **machine(), "seconds": time.monotonic() - began}])


def measure_start(plan: Plan, tasks: Sequence[Path], part: int, result: Path) -> None:
    """Some attempts of the model that training starts from, at every task asked of the repositories with a side."""
    environment = opened(plan, plan.config(), tasks)
    asked, draw = asked_of(plan, environment, *SIDES), FIRST_DRAW["start"] + part
    _measured_start(plan, environment, asked, plan.raw["measuring"]["start_samples"], draw, result)


def measure_before(plan: Plan, tasks: Sequence[Path], result: Path) -> None:
    """What the runs are compared with: other draws than those that chose the tasks."""
    environment = opened(plan, plan.config(), tasks)
    asked, draw = asked_of(plan, environment, "test"), FIRST_DRAW["before"]
    _measured_start(plan, environment, asked, plan.raw["measuring"]["before_samples"], draw, result)


def measure_memory(plan: Plan, tasks: Sequence[Path], result: Path) -> None:
    """The model's own completion with no statement: how near it comes to the solution that it may have read."""
    config = plan.config()
    environment = opened(plan, config, tasks, kind=Bare)
    asked, draw = asked_of(plan, environment, *SIDES), FIRST_DRAW["memory"]
    samples = plan.raw["measuring"]["memory_samples"]
    _measured_start(plan, environment, asked, samples, draw, result, with_likeness=True)


def _measured_start(
    plan: Plan,
    environment: CodeEnvironment,
    asked: Sequence[AskedTask],
    samples: int,
    draw: int,
    result: Path,
    with_likeness: bool = False,
) -> None:
    began, config = time.monotonic(), plan.config()
    policy = loaded(plan, config, environment)
    lines = outcomes(policy, environment, config, asked, samples, draw, with_likeness)
    about = {
        "line": "run",
        "config": config.model_dump(mode="json"),
        "samples": samples,
        "taught": plan.taught_hash(),
        "left_out": dict(environment.left_out),
    }
    write_result(result, [{**about, **machine(), "seconds": time.monotonic() - began}, *lines])


def run_segment(plan: Plan, run: RunName, last: int, tasks: Sequence[Path], state: Path, result: Path) -> None:
    """Train from the checkpoint that the segment before left in `state`, a folder `training`, and leave one there.

    One that was ended in the middle goes on; while it was measured, it is only measured.
    """
    began, config = time.monotonic(), plan.config(run)
    environment = opened(plan, config, tasks, plan.band("train"))
    policy = loaded(plan, config, environment)
    held, before, ready = steps_held(state / "scratch"), adapters_at_its_begin(state, last), time.monotonic()
    stopped = None
    try:
        if held < last:
            StepLines(state / ROLLOUTS).begin(held)
            trainer = partial(recording_trainer, environment)
            train(policy, config, environment, [], state, Silent(), [StopsAt(last)], trainer)
    except RecomposeError as error:  # a watchdog ended it: what it has learnt until its last checkpoint is its result
        stopped = str(error)
    if stopped or held >= last:
        policy = loaded(plan, config, environment)
        adopt_adapters(policy, latest(state / "scratch"))
    trained = time.monotonic()
    policy.model.eval()
    measured = opened(plan, config, tasks)
    chosen, number = measured_tasks(plan, run, last, measured)
    found = outcomes(policy, measured, config, chosen, number, FIRST_DRAW["segment"] + last)
    steps = range(last - plan.raw["segment_steps"] + 1, last + 1)
    rolled = {line["step"]: line for line in StepLines(state / ROLLOUTS).read()}
    logged = [
        {"line": "step", **line, **rolled[line["step"]]}
        for line in StepLines(state / "metrics.jsonl").read()
        if line["step"] in steps and "reward" in line
    ]
    samples = EveryRollout(state / "samples").files()
    seen = [{"line": "sample", **line} for file in samples if step_of(file) in steps for line in read_result(file)]
    about = {
        "line": "run", "arm": run.arm, "seed": run.seed, "rate": config.training.learning_rate, "last_step": last,
        "config": config.model_dump(mode="json"), "train_task_ids": plan.band("train"), "adapters_before": before,
        "taught": plan.taught_hash(),
        "adapters_after": adapters_hash(state), "adapters_rms": adapters_rms(state), "stopped": stopped, **machine(),
        "load_s": ready - began, "train_s": trained - ready, "measure_s": time.monotonic() - trained,
    }  # fmt: skip
    alarms = ({"line": "alarm", **line} for line in StepLines(state / "alarms.jsonl").read())
    write_result(result, [about, *logged, *seen, *alarms, *found])
    for folder in ("samples", "adapters"):
        shutil.rmtree(state / folder, ignore_errors=True)


def measured_tasks(plan: Plan, run: RunName, step: int, environment: CodeEnvironment) -> tuple[list[AskedTask], int]:
    """Every test task; of a tuning run, at its end, every task of the validation repositories."""
    is_end, measuring = step == plan.steps_of(run)[-1], plan.raw["measuring"]
    side = "test" if run.rate is None else "validation"
    asked = asked_of(plan, environment, side)
    if run.rate is not None:
        return asked if is_end else [], plan.raw["tuning"]["samples"]
    return asked, measuring["end_samples" if is_end else "way_samples"]


def asked_of(plan: Plan, environment: CodeEnvironment, *sides: str) -> list[AskedTask]:
    """With `covered_only` those that a visible test covers."""
    every = [task for split in (TRAIN, "heldout") for task in environment.tasks(split)]
    asked = [task for task in every if plan.side(task.labels["repository"]) in sides]
    return [task for task in asked if environment.covering(task)] if plan.raw.get("covered_only") else asked


def outcomes(
    policy: Policy,
    environment: CodeEnvironment,
    config: Config,
    asked: Sequence[AskedTask],
    samples: int,
    draw: int,
    with_likeness: bool = False,
) -> list[dict[str, Any]]:
    generator = torch.Generator(device=policy.model.device).manual_seed(draw)
    wanted = [task for task in asked for _ in range(samples)]
    temperature = config.training.temperature
    played = play_tasks(policy, environment, config, wanted, temperature=temperature, generator=generator)
    more: Callable[[Sequence[Any]], dict[str, Any]] = getattr(environment, "measured", lambda episodes: {})
    lines: list[dict[str, Any]] = []
    for number, task in enumerate(asked):
        own = played[number * samples : (number + 1) * samples]
        line = {
            "line": "task",
            "task_id": task.task_id,
            "name": task.folder.folder.name,
            **{label: task.labels.get(label, WITHOUT_A_LABEL) for label in ("repository", "generator", "difficulty")},
            "covered": bool(environment.covering(task)),
            "rewards": [one.reward for one in own],
            "passed": [int(one.reward >= 1) for one in own],
            "said": (said := [next((turn.text for turn in one.turns), "") for one in own]),
            "tokens": [len(one.completion_ids) for one in own],
        }
        if with_likeness:
            line["likeness"] = [likeness(task.folder, text) for text in said]
        lines.append(line | more([one.episode for one in own]))
    return lines


class EveryRollout(RolloutSamples):
    """Also notes each rollout of a step: its task, its reward, how many of its turns were hinted at, and what the
    environment has noted of it."""

    environment: CodeEnvironment | None = None

    def keep(
        self, step: int, rollouts: Sequence[Rolled], rewards: Sequence[float], hints: Sequence[Mapping[int, str]]
    ) -> None:
        super().keep(step, rollouts, rewards, hints)
        noted = zip(rollouts, rewards, hints, strict=True)
        line = {"step": step, "rollouts": [[one.trace.task_id, reward, len(own)] for one, reward, own in noted]}
        StepLines(self.folder.parent / ROLLOUTS).append(line | dict(getattr(self.environment, "noted", {})))


def recording_trainer(environment: CodeEnvironment, **settings: Any) -> ComposerReplicationTrainer:
    samples = EveryRollout(settings["samples"].folder)
    samples.environment = environment
    return ComposerReplicationTrainer(**settings | {"samples": samples})


class StopsAt(TrainerCallback):
    def __init__(self, step: int) -> None:
        self._step = step

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        control.should_training_stop = control.should_training_stop or state.global_step >= self._step


def opened(
    plan: Plan,
    config: Config,
    tasks: Sequence[Path],
    ids: Sequence[str] | None = None,
    kind: type[CodeEnvironment] | None = None,
) -> CodeEnvironment:
    """With the tasks that are named, or with all of the plan's repositories."""
    module, _, name = plan.raw["environment"].partition(":")
    make = kind or getattr(importlib.import_module(module), name)
    folders = [task for folder in tasks for task in read_tasks(folder)]
    known = {task.code_task.repository for task in folders}
    sided = [task for task in folders if plan.side(task.code_task.repository) in SIDES]
    wanted = [task for task in sided if ids is None or task.code_task.task.task_id in set(ids)]
    held_out = [] if ids is not None else [name for name in plan.heldout if name in known]
    changes = {"heldout_repositories": tuple(held_out), "heldout_share": 0.0}
    return make(wanted, config.environment.model_copy(update=changes))


def untaught(config: Config, environment: CodeEnvironment) -> Policy:
    return load_policy(config.model.name, environment, config.seed, config.hardware.weights)


def loaded(plan: Plan, config: Config, environment: CodeEnvironment) -> Policy:
    """What every run begins from."""
    policy = untaught(config, environment)
    adopt_adapters(policy, plan.taught if config.warmup.steps else None)
    return policy


def adapters_at_its_begin(state: Path, last: int) -> str | None:
    """The hash of the adapters that the segment began with, which is noted then: it may be ended and go on."""
    note = state / BEGUN
    if not note.exists() or json.loads(note.read_text(encoding="utf-8"))["last"] != last:
        state.mkdir(parents=True, exist_ok=True)
        write_atomically(note, json.dumps({"last": last, "adapters": adapters_hash(state)}))
    return json.loads(note.read_text(encoding="utf-8"))["adapters"]


def adopt_adapters(policy: Policy, checkpoint: Path | None) -> None:
    from peft import PeftModel

    if checkpoint:
        policy.model = PeftModel.from_pretrained(policy.model, checkpoint).merge_and_unload()


def adapters_hash(state: Path) -> str | None:
    checkpoint = latest(state / "scratch")
    return None if checkpoint is None else hash_of_adapters(checkpoint)


def adapters_rms(state: Path) -> dict[str, float]:
    """How large the two factors are: what is sampled from is their product in bfloat16, which loses a small one."""
    from safetensors.torch import load_file

    if (checkpoint := latest(state / "scratch")) is None:
        return {}
    tensors = load_file(checkpoint / "adapter_model.safetensors").items()
    sides = {side: [own.flatten() for name, own in tensors if side in name] for side in ("lora_A", "lora_B")}
    return {side: torch.cat(found).square().mean().sqrt().item() for side, found in sides.items()}


def machine() -> dict[str, Any]:
    return {
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
        **{key: value for key, value in made_with().items() if key in ("version", "python", "libraries", "cpus")},
        "code_sha256": code_hash(),
        "peak_bytes": torch.cuda.max_memory_allocated() if torch.cuda.is_available() else None,
    }


def code_hash() -> str:
    """Of the package as it ran: a machine without the repository knows no commit."""
    root = Path(composer_replication.__file__).parent
    files = sorted(root.rglob("*.py"))
    return hashlib.sha256(b"".join(str(f.relative_to(root)).encode() + f.read_bytes() for f in files)).hexdigest()
