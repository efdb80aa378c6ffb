"""The jobs of a plan in the toolbox, and what each of them needs: starts, teachers, data, arms. Loads no torch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from shared.queue import Job
from shared.result_lines import SUFFIX

from .check import checked_plan
from .jobs import Experiment

if TYPE_CHECKING:
    from .work import Worker

LOST_WITH = {"start": "model", "data": "data"}
"""What a job leaves in its seed's folder of `work`."""


class Task(NamedTuple):
    """What a job's name says."""

    regime: str
    kind: str
    number: str


def task_of(job: Job) -> Task:
    regime, name = job.name.split("/")[-2:]
    kind, _, number = name.rpartition("-")
    return Task(regime, kind, number)


def jobs_of(experiment: Experiment) -> list[Job]:
    """Seed by seed, so that whatever is finished can be compared."""
    plan, work, results = checked_plan(experiment.plan), experiment.work, experiment.results
    expected, label = plan.raw["seconds"], f"{experiment.label}/" if experiment.label else ""
    jobs: dict[str, Job] = {}

    def add(name: str, result: Path, kind: str, *needs: str) -> None:
        needed = tuple(f"{label}{need}" for need in needs)
        on_demand = kind == "teacher"  # weights are not kept, and would be made again for nothing
        takes = expected.get(kind, expected["arm"])
        jobs.setdefault(name, Job(f"{label}{name}", result, takes, needed, on_demand))

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


def make_ready(experiment: Experiment, jobs: Sequence[Job]) -> None:
    """What a missing job needs and whose files are gone from `work` counts as not done; see run.py."""
    by_name, waiting = {job.name: job for job in jobs}, [job for job in jobs if not job.result.exists()]
    while waiting:
        for need in waiting.pop().needs:
            job, task = by_name[need], task_of(by_name[need])
            files = experiment.work / task.regime / f"start-{task.number}" / LOST_WITH.get(task.kind, "")
            if task.kind in LOST_WITH and job.result.exists() and not files.exists():
                job.result.unlink()
                waiting.append(job)


def worker(experiment: Experiment) -> Worker:
    from .work import Worker

    return Worker(experiment)
