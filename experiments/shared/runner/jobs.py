"""The jobs of a plan, and what each of them needs. Loads no torch: the runner that starts the workers needs none."""

from collections.abc import Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import NamedTuple

from shared.queue import Job
from shared.result_lines import SUFFIX

from .plan import read_plan


class Experiment(NamedTuple):
    folder: Path
    """Of its own code."""
    plan: Path
    work: Path
    """Weights and other files that are no results."""
    results: Path
    label: str
    """Before the names of its jobs, where several experiments share a queue."""


class Task(NamedTuple):
    """What a job's name says."""

    experiment: str
    regime: str
    kind: str
    number: str


def task_of(job: Job) -> Task:
    *label, regime, name = job.name.split("/")
    kind, _, number = name.rpartition("-")
    return Task("/".join(label), regime, kind, number)


def jobs_of(experiment: Experiment) -> list[Job]:
    """Seed by seed, so that whatever is finished can be compared."""
    plan, work, results = read_plan(experiment.plan), experiment.work, experiment.results
    expected, label = plan.raw["seconds"], f"{experiment.label}/" if experiment.label else ""
    jobs: dict[str, Job] = {}

    def add(name: str, result: Path, kind: str, *needs: str) -> None:
        needed = tuple(f"{label}{need}" for need in needs)
        jobs.setdefault(name, Job(f"{label}{name}", result, expected.get(kind, expected["arm"]), needed))

    for regime in plan.regimes:
        owner, needs_pairs = plan.teachers_of(regime), plan.needs_pairs(regime)
        for seed in plan.raw["regimes"][regime]["seeds"]:
            start, data = f"{regime}/start-{seed}", f"{regime}/data-{seed}"
            teachers = [f"{owner}/teacher-{name}" for name in plan.teachers(regime, seed)] if needs_pairs else []
            for name in teachers:
                add(name, work / name / "done", "teacher")
            add(start, results / f"{start}{SUFFIX}", "start")
            if teachers:
                add(data, results / f"{data}{SUFFIX}", "data", start, *teachers)
            for arm in plan.arms(regime):
                if seed in plan.seeds(regime, arm):
                    name = f"{regime}/{arm}-{seed}"
                    needed = [data] if plan.reads_pairs(regime, arm) else [start]
                    add(name, results / f"{name}{SUFFIX}", arm, *needed, *(teachers if plan.asks_teachers(arm) else []))
    return list(jobs.values())


def chosen(jobs: list[Job], patterns: Sequence[str]) -> list[Job]:
    """The jobs whose names fit a pattern, and what they need."""
    fitting = [job.name for job in jobs if any(fnmatch(job.name, pattern) for pattern in patterns)]
    return _with_needs(jobs, fitting)


def wanted(jobs: list[Job]) -> list[Job]:
    """Without teachers that no job waits for: weights are not kept, and would be made again for nothing."""
    missing = [job.name for job in jobs if not job.result.exists() and task_of(job).kind != "teacher"]
    needed = {job.name for job in _with_needs(jobs, missing)}
    return [job for job in jobs if task_of(job).kind != "teacher" or job.name in needed]


def _with_needs(jobs: list[Job], names: list[str]) -> list[Job]:
    by_name, found, todo = {job.name: job for job in jobs}, set[str](), list(names)
    while todo:
        found.add(name := todo.pop())
        todo += by_name[name].needs
    return [job for job in jobs if job.name in found]
