"""The plan as data: which runs there are, and the settings of each. Reads plan.toml."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from composer_replication.config import Config
from shared.queue import Job
from shared.result_lines import SUFFIX

HERE = Path(__file__).parent
START = "start"


@dataclass(frozen=True)
class Plan:
    raw: Mapping[str, Any]

    @property
    def arms(self) -> list[str]:
        return list(self.raw["arms"])

    @property
    def measuring(self) -> Mapping[str, Any]:
        return self.raw["measuring"]

    def config(self, arm: str, seed: int) -> Config:
        """Of an arm, or of the start that all arms of the seed share."""
        own = {} if arm == START else self.raw["arms"][arm]
        return Config.model_validate(merged(self.raw["base"], own, {"seed": seed}))

    def jobs(self, results: Path, patterns: list[str]) -> list[Job]:
        """All starts first, since every arm waits for one; then seed by seed, so that what is done can be compared."""
        seconds, seeds = self.raw["seconds"], self.raw["seeds"]
        jobs = [Job(f"{START}-{seed}", results / f"{START}-{seed}{SUFFIX}", seconds["start"]) for seed in seeds]
        for seed in seeds:
            for arm in self.arms:
                name = f"{arm}-{seed}"
                jobs.append(Job(name, results / f"{name}{SUFFIX}", seconds["arm"], (f"{START}-{seed}",)))
        wanted = {job.name for job in jobs if any(fnmatch(job.name, pattern) for pattern in patterns)}
        wanted |= {need for job in jobs if job.name in wanted for need in job.needs}
        return [job for job in jobs if job.name in wanted]


def read_plan(path: Path) -> Plan:
    return Plan(tomllib.loads(path.read_text(encoding="utf-8")))


def merged(*layers: Mapping[str, Any]) -> dict[str, Any]:
    """Later layers win; sections are merged key by key."""
    result: dict[str, Any] = {}
    for layer in layers:
        for key, value in layer.items():
            result[key] = merged(result.get(key, {}), value) if isinstance(value, Mapping) else value
    return result
