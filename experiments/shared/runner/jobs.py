"""Experiments in one queue: which jobs each has, and which of them are wanted. Loads no torch."""

import importlib
import sys
import tomllib
from collections.abc import Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, NamedTuple

from shared.queue import Job

TOOLBOX = "shared.runner.toolbox"


class Experiment(NamedTuple):
    folder: Path
    """Of its own code."""
    plan: Path
    work: Path
    """Weights and other files that are no results."""
    results: Path
    label: str
    """Before the names of its jobs, where several experiments share a queue."""


def experiments_in(folders: Sequence[Path], work: Path, results: Path | None) -> list[Experiment]:
    """Each with its own folder below `work` and below `results`, laid out as its own; without `results` there."""
    return [
        Experiment(folder, folder / "plan.toml", work / folder.name, own / "results", folder.name)
        for folder in (folder.resolve() for folder in folders)
        for own in [results / folder.name if results else folder]
    ]


def kind_of(experiment: Experiment) -> Any:
    """The module that knows the jobs of a plan: `runner` in plan.toml, of `shared` or of the experiment's folder.

    It has `jobs_of(experiment)`, `make_ready(experiment, jobs)`, called once before the workers start, and
    `worker(experiment)`, whose `do(job)` leaves the job's result. `carried(experiment)` is for carry.py.
    """
    if str(experiment.folder) not in sys.path:
        sys.path.append(str(experiment.folder))
    return importlib.import_module(tomllib.loads(experiment.plan.read_text(encoding="utf-8")).get("runner", TOOLBOX))


def chosen(jobs: list[Job], patterns: Sequence[str]) -> list[Job]:
    """The jobs whose names fit a pattern, and what they need."""
    fitting = [job.name for job in jobs if any(fnmatch(job.name, pattern) for pattern in patterns)]
    return _with_needs(jobs, fitting)


def wanted(jobs: list[Job]) -> list[Job]:
    """Without those that are done on demand where no job waits for them."""
    missing = [job.name for job in jobs if not job.result.exists() and not job.on_demand]
    needed = {job.name for job in _with_needs(jobs, missing)}
    return [job for job in jobs if not job.on_demand or job.name in needed]


def _with_needs(jobs: list[Job], names: list[str]) -> list[Job]:
    by_name, found, todo = {job.name: job for job in jobs}, set[str](), list(names)
    while todo:
        found.add(name := todo.pop())
        todo += by_name[name].needs
    return [job for job in jobs if job.name in found]
