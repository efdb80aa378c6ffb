"""The plan as data: which runs there are, and the settings of each. Reads plan.toml."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from composer_replication.config import Config
from composer_replication.objective import TrdpoSettings

HERE = Path(__file__).parent
TEACHERS = ("a", "b", "c")
FIRST_TEACHER_SEED = 9001
"""Far from the seeds of policies, so that no teacher was warmed up on a policy's logs."""
FEWEST_SITES = 12
"""Of a kind, for its gap to count."""


@dataclass(frozen=True)
class Plan:
    name: str
    raw: Mapping[str, Any]

    @property
    def regimes(self) -> list[str]:
        return list(self.raw["regimes"])

    def seeds(self, regime: str, arm: str) -> list[int]:
        own = self.raw["regimes"][regime]
        return list(own.get("seeds_of", {}).get(arm, own["seeds"]))

    def arms(self, regime: str) -> list[str]:
        return list(self.raw["regimes"][regime]["arms"])

    def config(self, regime: str, arm: str, seed: int) -> Config:
        own = self.raw["regimes"][regime].get("config", {})
        return Config.model_validate(merged(self.raw["base"], own, self.raw["arms"][arm], {"seed": seed}))

    def last_step(self, regime: str, arm: str) -> int:
        """Where an arm ends; `training.steps`, which the order of the tasks hangs on, may go beyond it."""
        return self.raw.get("last_steps", {}).get(arm, self.config(regime, arm, 0).training.steps)

    def start_config(self, regime: str, seed: int) -> Config:
        return Config.model_validate(
            merged(self.raw["base"], self.raw["regimes"][regime].get("config", {}), {"seed": seed})
        )

    def teacher_config(self, regime: str, teacher: str) -> Config:
        """Another seed, more steps and cleaner logs; the same tools."""
        toolbox = {"toolbox": self.start_config(regime, 0).toolbox.model_dump()}
        seed = {"seed": FIRST_TEACHER_SEED + TEACHERS.index(teacher)}
        return Config.model_validate(merged(self.raw["base"], toolbox, self.raw["teachers"], seed))

    def teachers_of(self, regime: str) -> str:
        """Regimes with the same tools share their teachers."""
        return self.raw["regimes"][regime].get("teachers_of", regime)

    def needs_pairs(self, regime: str) -> bool:
        return any(self.config(regime, arm, 0).channel(TrdpoSettings).weight for arm in self.arms(regime))


def read_plan(path: Path = HERE / "plan.toml") -> Plan:
    return Plan(path.stem, tomllib.loads(path.read_text(encoding="utf-8")))


def merged(*layers: Mapping[str, Any]) -> dict[str, Any]:
    """Later layers win; sections are merged key by key."""
    result: dict[str, Any] = {}
    for layer in layers:
        for key, value in layer.items():
            result[key] = merged(result.get(key, {}), value) if isinstance(value, Mapping) else value
    return result
