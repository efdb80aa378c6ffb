"""The plan as data: which jobs there are, in which order, and the settings of each run. Reads plan.toml and results.

Which tasks are trained on and at which rate hangs on earlier results, so both are looked up when a job begins.
"""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from composer_replication.config import Config
from composer_replication.evaluation.metrics import pass_at_k
from shared.queue import Job
from shared.result_lines import SUFFIX, read_result
from shared.runner.plan import merged

TAUGHT, START, BEFORE, MEMORY, TUNE = "taught", "start", "before", "memory", "tune-"


class RunName(NamedTuple):
    """`grpo-501`, or `tune-grpo-1e-04-500`."""

    arm: str
    seed: int
    rate: float | None
    """None: the one that tuning chose."""

    @property
    def name(self) -> str:
        return f"{self.arm}-{self.seed}" if self.rate is None else f"{TUNE}{self.arm}-{self.rate:.0e}-{self.seed}"


@dataclass(frozen=True)
class Plan:
    raw: Mapping[str, Any]
    results: Path

    def runs(self) -> list[RunName]:
        """Tuning first, since the others wait for it; then seed by seed, so that what is done can be compared."""
        tuning = self.raw.get("tuning")
        tuned = (
            [RunName(arm, tuning["seed"], rate) for arm in tuning["arms"] for rate in tuning["rates"]] if tuning else []
        )
        return tuned + [RunName(arm, seed, None) for seed in self.raw["seeds"] for arm in self.raw["arms"]]

    def steps_of(self, run: RunName) -> list[int]:
        """At which its segments end."""
        last = self.raw["base"]["training"]["steps"] if run.rate is None else self.raw["tuning"]["steps"]
        return list(range(self.raw["segment_steps"], last + 1, self.raw["segment_steps"]))

    def jobs(self) -> list[Job]:
        seconds, measuring = self.raw["seconds"], self.raw["measuring"]
        starts = [f"{START}-{part}" for part in range(measuring["start_parts"])]
        taught = (TAUGHT,) if self.config().warmup.steps else ()
        jobs = [Job(name, self.file(name), seconds[name]) for name in taught]
        jobs += [Job(name, self.file(name), seconds["start"], taught) for name in starts]
        jobs += [Job(name, self.file(name), seconds[name], taught) for name in (BEFORE, MEMORY) if name in seconds]
        for run in self.runs():
            before = (*starts, *(() if run.rate is not None else self._tuning_of(run.arm)))
            for step in (steps := self.steps_of(run)):
                name, takes = f"{run.name}@{step}", "last_segment" if step == steps[-1] else "segment"
                jobs.append(Job(name, self.file(name), seconds[takes], before))
                before = (name,)
        return jobs

    def _tuning_of(self, arm: str) -> list[str]:
        """Jobs that choose its rate."""
        tuned = [run for run in self.runs() if run.rate is not None and run.arm == self._rate_of(arm)]
        return [f"{run.name}@{self.steps_of(run)[-1]}" for run in tuned]

    def _rate_of(self, arm: str) -> str:
        return self.raw["arms"][arm].get("rate_of", arm)

    def run_of(self, job: str) -> tuple[RunName, int]:
        name, _, step = job.rpartition("@")
        return next(run for run in self.runs() if run.name == name), int(step)

    def file(self, name: str) -> Path:
        return self.results / f"{name}{SUFFIX}"

    @property
    def taught(self) -> Path:
        """Adapters that all runs begin with, where there is a warm-up. They travel with the results."""
        return self.results / TAUGHT

    def taught_hash(self) -> str | None:
        return hash_of_adapters(self.taught) if self.taught.is_dir() else None

    def config(self, run: RunName | None = None) -> Config:
        if run is None:
            return Config.model_validate(self.raw["base"])
        arm = self.raw["arms"][run.arm]
        own = {key: value for key, value in arm.items() if key != "rate_of"}
        settings = merged(self.raw["base"], own, {"seed": run.seed})
        if "tuning" in self.raw:
            rate = run.rate or self.tuned_rate(self._rate_of(run.arm))
            settings = merged(settings, {"training": {"learning_rate": rate}})
        return Config.model_validate(settings)

    def tuned_rate(self, arm: str) -> float:
        """The one with the highest mean reward on the validation repositories; of equal ones the lowest."""
        tuning = self.raw["tuning"]
        runs = [RunName(arm, tuning["seed"], rate) for rate in sorted(tuning["rates"])]
        return max(runs, key=lambda run: self._validated(run)).rate or 0.0

    def _validated(self, run: RunName) -> float:
        lines = read_result(self.file(f"{run.name}@{self.steps_of(run)[-1]}"))
        return round(fmean(fmean(line["rewards"]) for line in lines if line["line"] == "task"), 6)

    def start_rates(self) -> dict[str, StartRate]:
        """Of every task, over all parts of the start."""
        found: dict[str, StartRate] = {}
        for part in range(self.raw["measuring"]["start_parts"]):
            for line in read_result(self.file(f"{START}-{part}")):
                if line["line"] == "task":
                    sofar = found.get(line["task_id"], StartRate(line["repository"], 0, 0, 0.0))
                    passed, tries = sofar.passed + sum(line["passed"]), sofar.tries + len(line["passed"])
                    earned = sofar.earned + sum(line["rewards"])
                    found[line["task_id"]] = sofar._replace(passed=passed, tries=tries, earned=earned)
        return found

    def band(self, side: str) -> list[str]:
        """Ids of the tasks of `train` or `test` in the band. Where there are too few, those above it with a pass rate
        of at most a half follow, the nearest first; then those below it that earn parts, the best paid first."""
        low, high = self.raw["band"]
        rates = {task: rate for task, rate in self.start_rates().items() if self.side(rate.repository) == side}
        inside = sorted(task for task, rate in rates.items() if low <= rate.pass_at_8 <= high)
        above = [task for task, rate in rates.items() if rate.pass_at_8 > high and 2 * rate.passed <= rate.tries]
        above.sort(key=lambda task: (rates[task].pass_at_8, task))
        below = [task for task, rate in rates.items() if rate.pass_at_8 < low and rate.earned > 0]
        below.sort(key=lambda task: (-rates[task].earned, task))
        return inside + (above + below)[: max(0, self.raw["fewest"][side] - len(inside))]

    def logged_steps(self, run: RunName) -> list[dict[str, Any]]:
        """Of all segments, each of which must have begun with what the one before left."""
        steps: list[dict[str, Any]] = []
        left = None
        for end in self.steps_of(run):
            lines = list(read_result(self.file(f"{run.name}@{end}")))
            if lines[0]["adapters_before"] != left:
                raise ValueError(f"{run.name}@{end} did not begin with the adapters of the segment before")
            left = lines[0]["adapters_after"]
            steps += [line for line in lines if line["line"] == "step"]
        return steps

    def side(self, repository: str) -> str:
        """Where the plan does not say which repositories train, all others do."""
        sides = self.raw["repositories"]
        return next(
            (side for side, names in sides.items() if repository in names), "none" if "train" in sides else "train"
        )

    @property
    def heldout(self) -> list[str]:
        return [name for side, names in self.raw["repositories"].items() if side != "train" for name in names]


def hash_of_adapters(folder: Path) -> str:
    return hashlib.sha256((folder / "adapter_model.safetensors").read_bytes()).hexdigest()


class StartRate(NamedTuple):
    repository: str
    passed: int
    tries: int
    earned: float
    """Sum of the rewards, which count parts of a task."""

    @property
    def pass_at_8(self) -> float:
        return pass_at_k(self.passed, self.tries, 8)

    def stratum(self, band: Sequence[float]) -> str:
        """By the start: what it never or hardly solves, what it sometimes solves, and what it mostly solves."""
        return "hard" if self.pass_at_8 < band[0] else "middle" if self.pass_at_8 <= band[1] else "easy"


def read_plan(path: Path, results: Path) -> Plan:
    return Plan(tomllib.loads(path.read_text(encoding="utf-8")), results)
