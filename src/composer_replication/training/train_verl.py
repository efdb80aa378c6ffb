"""`--backend verl`: writes what verl's processes read, starts its own entry point, and brings the weights back.

Reads the policy, the config and stored examples. Writes `RUN/training/verl` (config, tasks, what each step learns
from stored traces, checkpoints, verl's log) and `RUN/training/metrics.jsonl`. The same command goes on from the last
checkpoint.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from composer_replication.config import Config
from composer_replication.environments.protocol import Environment, EnvironmentTask
from composer_replication.errors import RecomposeError, UsageError, quoted
from composer_replication.progress import Progress
from composer_replication.runs import write_atomically

from . import processes
from .backends import lost_by
from .backends.verl.overrides import (
    CONFIG_FILE,
    STEPS_FILE,
    TASKS_FILE,
    VerlJob,
    overrides,
    refuse_fixed_overrides,
    refuse_unknown_overrides,
)
from .backends.verl.stored_steps import stored_steps, write_steps
from .models.loading import Policy, load_saved_policy
from .planning.refusals import refuse_for_backend, refuse_what_would_do_nothing
from .running import steps_of, telling_of, training_tasks, warn_of_stuck_weights
from .stored.collator import ComposerDataCollator
from .stored.examples import TraceExample
from .stored.records import TrainingStep
from .stored.reference import with_reference_logprobs

INSIDE = "composer_replication.training.backends.verl.inside"
LOOK_S, GRACE_S = 1.0, 30.0


def train(
    policy: Policy,
    config: Config,
    environment: Environment,
    examples: Sequence[TraceExample],
    folder: Path,
    progress: Progress,
    *,
    ray_address: str | None = None,
    override: Sequence[str] = (),
) -> list[TrainingStep]:
    refuse_what_would_do_nothing(config, processes.number())
    refuse_for_backend(config, "verl", processes.number())
    refuse_fixed_overrides(config, override)
    refuse_no_accelerator()
    refuse_missing_plugin()
    warn_of_stuck_weights(policy.model, config, progress)
    for sentence in lost_by("verl"):
        progress.note(sentence)
    own = (folder / "verl").absolute()
    job = prepared_job(policy, config, environment, examples, own)
    chosen = [*overrides(config, job, ray_address), *override]
    refuse_unknown_overrides(chosen)
    if steps_done(own) < config.training.steps:
        _run(chosen, job, config.training.steps, progress)
    entries = list(entries_of(own))
    write_atomically(folder / "metrics.jsonl", "".join(json.dumps(entry) + "\n" for entry in entries))
    trained = own / "checkpoints" / f"global_step_{config.training.steps}" / "actor" / "huggingface"
    policy.model = load_saved_policy(trained, policy.name, config.hardware.weights).model
    return steps_of(entries)


def refuse_missing_plugin() -> None:
    """verl is silent about a plugin that it could not load, so its registers are asked, and we for the reason."""
    try:
        algorithms, loops, trainers = (
            import_module(name)
            for name in (
                "verl.trainer.ppo.core_algos",
                "verl.experimental.agent_loop.agent_loop",
                "verl.trainer.ppo.v1.trainer_base",
            )
        )
    except ImportError as error:
        raise UsageError(
            f"--backend verl needs verl, in an environment of its own: {error}", "make engines-verl sets one up"
        ) from error
    missing = [
        name
        for name, register in (
            ("grpo_composer", algorithms.ADV_ESTIMATOR_REGISTRY),
            ("composer", loops._agent_loop_registry),
            ("composer_sync", trainers.TRAINER_REGISTRY),
        )
        if name not in register
    ]
    if not missing:
        return
    reason = "the entry point group verl.plugins does not lead to us, or VERL_USE_EXTERNAL_PLUGINS leaves us out"
    try:
        import_module(f"{INSIDE}.plugin")
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
    raise RecomposeError(
        f"verl did not load our plugin ({', '.join(missing)} not registered): {reason}",
        "install composer-replication in verl's environment, with pip",
    )


def prepared_job(
    policy: Policy, config: Config, environment: Environment, examples: Sequence[TraceExample], own: Path
) -> VerlJob:
    own.mkdir(parents=True, exist_ok=True)
    collator = ComposerDataCollator(policy.tokenizer.pad_token_id)
    with torch.autocast(
        policy.model.device.type, torch.bfloat16, enabled=config.hardware.autocasts(torch.cuda.is_available())
    ):
        stored = with_reference_logprobs(policy, examples, collator, own.parent / "reference.json")
    write_atomically(own / CONFIG_FILE, config.model_dump_json())
    write_steps(own / STEPS_FILE, stored_steps(config, stored))
    tasks = training_tasks(environment, config)
    write_tasks(own / TASKS_FILE, tasks)
    start = saved_start(policy, own)
    longest = max(len(policy.tokens.prompt(task.messages)) for task in tasks)
    attempt = len(list(own.glob("metrics-*.jsonl")))
    env = {name: value for name, value in os.environ.items() if name.startswith("VERL_")}
    env |= {"VERL_FILE_LOGGER_PATH": str(own / f"metrics-{attempt}.jsonl"), "TOKENIZERS_PARALLELISM": "false"}
    on_gpu = torch.cuda.is_available()
    ranks = torch.cuda.device_count() if on_gpu else 1
    return VerlJob(own, start, ranks, longest, environment.limits, env, on_gpu)


def saved_start(policy: Policy, own: Path) -> Path:
    """The model that verl starts from, whole or not at all: whoever was stopped while saving saves again."""
    start, partial = own / "start", own / "start.partial"
    if not start.exists():
        policy.save(partial)
        partial.rename(start)
    return start


def refuse_no_accelerator() -> None:
    """Unless verl is told of one that torch does not call a GPU."""
    if not torch.cuda.is_available() and "VERL_PLATFORM" not in os.environ:
        raise UsageError(
            "verl samples with vLLM or SGLang, which need a GPU, and there is none",
            "docs/engines/verl.md names a test tool that tries the wiring on a CPU",
        )


def write_tasks(path: Path, tasks: Sequence[EnvironmentTask]) -> None:
    """One row for each prompt of the run, in the order in which they are played."""
    import pyarrow
    import pyarrow.parquet

    rows = [
        {
            "prompt": [{"role": "user", "content": task.task_id}],
            "data_source": "composer",
            "reward_model": {"style": "rule", "ground_truth": ""},
            "extra_info": {"index": place, "task_id": task.task_id},
        }
        for place, task in enumerate(tasks)
    ]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)


def _run(chosen: Sequence[str], job: VerlJob, steps: int, progress: Progress) -> None:
    command = [sys.executable, "-m", "verl.trainer.main_ppo", *chosen]
    log = job.folder / "verl.log"
    with log.open("ab") as out:
        begun = out.tell()
        verl = subprocess.Popen(  # noqa: S603  # our own interpreter
            command, stdout=out, stderr=out, env={**os.environ, **job.env}, cwd=job.folder, start_new_session=True
        )
        told = steps_done(job.folder)
        if told:
            progress.note(f"training goes on from step {told}")
        held = partial(steps_done, job.folder)
        try:
            with telling_of(progress, steps, lambda: told, lambda: f"verl is at work and writes {log}", held):
                while verl.poll() is None:
                    time.sleep(LOOK_S)
                    for entry in entries_of(job.folder):
                        if entry["step"] > told:
                            told = entry["step"]
                            progress.step(told, steps, f"reward {entry.get('reward', 0.0):.2f}")
        finally:
            _end(verl)
    if verl.returncode:
        saved = steps_done(job.folder)
        raise RecomposeError(
            f"verl ended with {verl.returncode} after step {told}: {reason_in(log, begun)}",
            f"read {quoted(log)}; the same command goes on from step {saved}",
        )


def _end(verl: subprocess.Popen[bytes]) -> None:
    """With all that it started; Ray's own processes follow their driver."""
    for kind in (signal.SIGINT, signal.SIGKILL):
        if verl.poll() is not None:
            return
        os.killpg(verl.pid, kind)
        try:
            verl.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            continue


def reason_in(log: Path, begun: int) -> str:
    """The last error that the log names from its byte `begun` on; before that it is of other attempts."""
    lines = log.read_bytes()[begun:].decode(errors="replace").splitlines()
    errors = [line for line in lines if "Error: " in line or line.startswith("ray.exceptions")]
    return (errors or lines or ["it wrote nothing"])[-1].strip()[:400]


def steps_done(own: Path) -> int:
    """By the last whole checkpoint."""
    latest = own / "checkpoints" / "latest_checkpointed_iteration.txt"
    return int(latest.read_text()) if latest.exists() else 0


def entries_of(own: Path) -> Iterator[dict[str, Any]]:
    """verl's lines in our words, by step. It begins its file anew at each start, so each attempt has its own."""
    by_step: dict[int, dict[str, Any]] = {}
    for path in sorted(own.glob("metrics-*.jsonl"), key=lambda path: int(path.stem.rpartition("-")[2])):
        for line in path.read_text().splitlines():
            try:
                read = json.loads(line)
            except json.JSONDecodeError:
                continue  # being written
            by_step[read["step"]] = read["data"]
    for step in sorted(by_step):
        data = by_step[step]
        entry = {
            "step": step,
            "loss": data.get("actor/loss", data.get("actor/pg_loss")),
            "grad_norm": data.get("actor/grad_norm"),
            "channel/policy": data.get("actor/pg_loss"),
            "channel/sdpo": data.get("composer/sdpo_loss"),
            "channel/replay": data.get("composer/replay_loss"),
            "reward": data.get("critic/score/mean"),
            "entropy": data.get("actor/entropy"),
        }
        yield {**data, **{name: value for name, value in entry.items() if value is not None}}
