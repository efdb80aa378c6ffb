"""The jobs of this experiment, for the shared runner: the start of each seed, and its arms. Reads plan.toml.

Results go to results/<policy>, so that figures of two policies are never pooled.
"""

from __future__ import annotations

import shutil
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from composer_replication.config import Config
from shared.queue import Job
from shared.result_lines import SUFFIX
from shared.runner.jobs import Experiment
from shared.runner.plan import merged

START = "start"


@dataclass(frozen=True)
class Plan:
    raw: dict[str, Any]

    def config(self, arm: str, seed: int) -> Config:
        """Of an arm, or of the start that all arms of the seed share."""
        own = {} if arm == START else self.raw["arms"][arm]
        return Config.model_validate(merged(self.raw["base"], own, {"seed": seed}))


def read_plan(path: Path) -> Plan:
    return Plan(tomllib.loads(path.read_text(encoding="utf-8")))


def jobs_of(experiment: Experiment) -> list[Job]:
    """All starts first, since every arm waits for one; then seed by seed, so that what is done can be compared."""
    plan, label = read_plan(experiment.plan), f"{experiment.label}/" if experiment.label else ""
    seconds, seeds, results = plan.raw["seconds"], plan.raw["seeds"], experiment.results / plan.raw["policy"]

    def job(name: str, takes: str, *needs: str) -> Job:
        return Job(f"{label}{name}", results / f"{name}{SUFFIX}", seconds[takes], needs)

    starts = {seed: job(f"{START}-{seed}", START) for seed in seeds}
    arms = [job(f"{arm}-{seed}", "arm", starts[seed].name) for seed in seeds for arm in plan.raw["arms"]]
    return [*starts.values(), *arms]


def make_ready(experiment: Experiment, jobs: Sequence[Job]) -> None:
    """A start whose weights are gone is made anew where an arm waits for it; see `set_aside_orphans`."""
    by_name = {job.name: job for job in jobs}
    for need in {need for job in jobs if not job.result.exists() for need in job.needs}:
        if not weights_of(experiment.work, need.rpartition("-")[2]).exists():
            by_name[need].result.unlink(missing_ok=True)


def worker(experiment: Experiment) -> Worker:
    return Worker(experiment)


class Worker:
    def __init__(self, experiment: Experiment) -> None:
        from leak_measure import Measure

        self._plan, self._work = read_plan(experiment.plan), experiment.work
        self._measure = Measure(self._plan.config(START, 0), self._plan.raw["measuring"])

    def do(self, job: Job) -> None:
        from leak_arm import run_arm, run_start

        name = job.name.rpartition("/")[2]
        arm, _, seed = name.rpartition("-")
        config, weights = self._plan.config(arm, int(seed)), weights_of(self._work, seed)
        if arm == START:
            return run_start(config, weights, job.result, self._measure)
        scratch = self._work / "scratch" / name
        shutil.rmtree(scratch, ignore_errors=True)
        run_arm(config, arm, weights, scratch, job.result, self._measure)
        shutil.rmtree(scratch, ignore_errors=True)


def weights_of(work: Path, seed: str) -> Path:
    return work / f"{START}-{seed}"
