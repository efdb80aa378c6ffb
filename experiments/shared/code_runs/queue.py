"""The jobs of a plan of this kind, for the shared runner: measurements of the start, and segments of runs.

Reads plan.toml, the archive of tasks that it names, and results. The state of unfinished runs is kept in
`work/state/<run>/training` and can travel: adapters, optimiser, schedule, random numbers, metrics. The tokenizer that
a checkpoint also holds stays behind: every machine has it with the model.
"""

from __future__ import annotations

import hashlib
import shutil
import tarfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from composer_replication.errors import UsageError
from composer_replication.training.backends.trl.checkpoints import latest, steps_held
from shared.queue import Job
from shared.result_lines import read_result
from shared.runner.jobs import Experiment

from .plan import BEFORE, MEMORY, START, TAUGHT, Plan, read_plan

LEFT_BEHIND = ("tokenizer", "vocab", "merges", "chat_template", "special_tokens", "added_tokens", "README")
KEPT_BESIDE = ("metrics.jsonl", "alarms.jsonl", "begun.json", "rollouts.jsonl")


def jobs_of(experiment: Experiment) -> list[Job]:
    label = f"{experiment.label}/" if experiment.label else ""
    return [
        replace(job, name=f"{label}{job.name}", needs=tuple(f"{label}{need}" for need in job.needs))
        for job in read_plan(experiment.plan, experiment.results).jobs()
    ]


def make_ready(experiment: Experiment, jobs: Sequence[Job]) -> None:
    plan = read_plan(experiment.plan, experiment.results)
    check_taught(plan)
    unpack_tasks(experiment, plan)
    begin_anew(plan, experiment.work)


def worker(experiment: Experiment) -> Worker:
    return Worker(experiment)


def carried(experiment: Experiment) -> Iterator[Path]:
    """The last checkpoint of every run that has begun and is not done."""
    plan = read_plan(experiment.plan, experiment.results)
    for run in plan.runs():
        state, end = state_of(experiment.work, run.name), plan.steps_of(run)[-1]
        checkpoint = latest(state / "scratch")
        if checkpoint is None or plan.file(f"{run.name}@{end}").exists():
            continue
        files = [*checkpoint.iterdir(), *(state / name for name in KEPT_BESIDE)]
        yield from (file for file in sorted(files) if file.is_file() and not file.name.startswith(LEFT_BEHIND))


class Worker:
    def __init__(self, experiment: Experiment) -> None:
        self._plan, self._work = read_plan(experiment.plan, experiment.results), experiment.work
        self._tasks = sorted(manifest.parent for manifest in (self._work / "tasks").glob("*/manifest.json"))

    def do(self, job: Job) -> None:
        from . import arm

        plan, tasks, name = self._plan, self._tasks, job.name.rpartition("/")[2]
        if name.startswith(f"{START}-"):
            arm.measure_start(plan, tasks, int(name.partition("-")[2]), job.result)
        elif name in (TAUGHT, BEFORE, MEMORY):
            work = {TAUGHT: arm.teach, BEFORE: arm.measure_before, MEMORY: arm.measure_memory}[name]
            work(plan, tasks, job.result)
        else:
            run, step = plan.run_of(name)
            arm.run_segment(plan, run, step, tasks, state_of(self._work, run.name), job.result)


def state_of(work: Path, run: str) -> Path:
    """The training folder of a run; the watchdog wants this name."""
    return work / "state" / run / "training"


def unpack_tasks(experiment: Experiment, plan: Plan) -> None:
    """The very tasks that the plan names by their hash, into `work/tasks`."""
    archive, target = experiment.plan.parent / plan.raw["tasks"], experiment.work / "tasks"
    if target.is_dir():
        return
    if hashlib.sha256(archive.read_bytes()).hexdigest() != plan.raw["tasks_sha256"]:
        raise UsageError(f"{archive} is not the file that {experiment.plan} names", "git checkout the archive")
    partial = target.with_name("tasks.partial")
    with tarfile.open(archive) as packed:
        packed.extractall(partial, filter="data")
    partial.rename(target)


def check_taught(plan: Plan) -> None:
    """What was measured began with the adapters that lie here."""
    heads = {file: next(read_result(file)) for job in plan.jobs() if (file := job.result).exists()}
    if others := [file.name for file, head in heads.items() if head.get("taught") != plan.taught_hash()]:
        raise UsageError(
            f"{others[0]} was made with other adapters than {plan.taught} holds",
            f"bring them back, or delete {plan.taught} and what was made with others",
        )


def begin_anew(plan: Plan, work: Path) -> None:
    """Where the last checkpoint of an unfinished run is neither that of its results nor of the segment after them, its
    segments are set aside and counted as orphans. One that a watchdog ended left the checkpoint before it."""
    for run in plan.runs():
        steps, state = plan.steps_of(run), state_of(work, run.name)
        done = [step for step in steps if plan.file(f"{run.name}@{step}").exists()]
        if done[-1:] == steps[-1:]:
            continue
        left = [step for step in done if not next(read_result(plan.file(f"{run.name}@{step}")), {}).get("stopped")]
        if max(left, default=0) <= steps_held(state / "scratch") <= max(done, default=0) + plan.raw["segment_steps"]:
            continue
        shutil.rmtree(state, ignore_errors=True)
        (plan.results / "orphans").mkdir(parents=True, exist_ok=True)
        for step in done:
            file = plan.file(f"{run.name}@{step}")
            file.rename(plan.results / "orphans" / f"{time.time():.0f}-{file.name}")
