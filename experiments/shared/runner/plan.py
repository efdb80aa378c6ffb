"""The plan as data: which runs there are, and the settings of each. Reads a plan.toml."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from composer_replication.config import Config
from composer_replication.objective import TrdpoSettings

TEACHERS = ("a", "b", "c")
FIRST_TEACHER_SEED = 9001
"""Far from the seeds of policies, so that no teacher was warmed up on a policy's logs."""
FEWEST_SITES = 12
"""Of a kind, for its gap to count."""
FIRST_TASK = {
    "dev": 10_000, "test": 20_000, "map": 22_000, "headline": 24_000, "rates": 26_000, "content": 28_000,
    "competitors": 30_000, "triples": 32_000, "teaching": 34_000,
}  # fmt: skip
"""The first held-out task that each `part` of an experiment measures; the quickstart has looked at 0 to 255."""
OF_THE_RUNNER = ("way", "steps", "phases", "asks_teachers", "kind")
"""Keys of an arm, a phase or a triple of teachers that are no settings of the run."""
SEEDS_APART = 1000
"""Between the phases of an arm: each has tasks of its own."""


class Phase(NamedTuple):
    """One call of `train`."""

    config: Config
    last_step: int
    way: str | None
    """`module:function` in the experiment's folder; see `Setting` in arm.py."""


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
        return self._config(regime, self.raw["arms"][arm], {"seed": seed})

    def last_step(self, regime: str, arm: str) -> int:
        """Where an arm ends; `training.steps`, which the order of the tasks hangs on, may go beyond it."""
        return self.raw.get("last_steps", {}).get(arm, self.config(regime, arm, 0).training.steps)

    def phases(self, regime: str, arm: str, seed: int) -> list[Phase]:
        own = self.raw["arms"][arm]
        if "phases" not in own:
            return [Phase(self.config(regime, arm, seed), self.last_step(regime, arm), own.get("way"))]
        return [
            Phase(
                self._config(regime, own, phase, {"seed": seed + SEEDS_APART * number}),
                phase["steps"],
                phase.get("way"),
            )
            for number, phase in enumerate(own["phases"])
        ]

    def start_config(self, regime: str, seed: int) -> Config:
        return self._config(regime, {"seed": seed})

    def _config(self, regime: str, *layers: Mapping[str, Any]) -> Config:
        return validated(self.raw["base"], self.raw["regimes"][regime].get("config", {}), *layers)

    # Teachers: one triple for all seeds, or where `teachers` is a list one for each

    def teachers(self, regime: str, seed: int) -> list[str]:
        """Names of the three that vote for this seed."""
        return [f"{seed}{letter}" if self._has_own_teachers else letter for letter in TEACHERS]

    def teacher_config(self, regime: str, teacher: str) -> Config:
        """Another seed, more steps and cleaner logs; the same tools."""
        toolbox = {"toolbox": self.start_config(regime, 0).toolbox.model_dump()}
        triple = int(teacher[:-1] or 0)
        seed = {"seed": FIRST_TEACHER_SEED + len(TEACHERS) * triple + TEACHERS.index(teacher[-1])}
        layer = self.triple(triple) if self._has_own_teachers else self.raw["teachers"]
        return validated(self.raw["base"], toolbox, layer, seed)

    def triple(self, seed: int) -> Mapping[str, Any]:
        """With several layers in `teachers`, seeds take turns with them."""
        return self.raw["teachers"][seed % len(self.raw["teachers"])]

    def teachers_of(self, regime: str) -> str:
        """Regimes with the same tools share their teachers."""
        return self.raw["regimes"][regime].get("teachers_of", regime)

    def needs_pairs(self, regime: str) -> bool:
        return any(self.reads_pairs(regime, arm) for arm in self.arms(regime))

    def reads_pairs(self, regime: str, arm: str) -> bool:
        return bool(self.config(regime, arm, 0).channel(TrdpoSettings).weight) or self.asks_teachers(arm)

    def asks_teachers(self, arm: str) -> bool:
        """While it trains, so that their weights must be there."""
        return self.raw["arms"][arm].get("asks_teachers", False)

    @property
    def _has_own_teachers(self) -> bool:
        return isinstance(self.raw.get("teachers"), list)


def read_plan(path: Path) -> Plan:
    return Plan(path.stem, with_rates(tomllib.loads(path.read_text(encoding="utf-8"))))


def with_rates(raw: dict[str, Any]) -> dict[str, Any]:
    """With `rates`, every arm stands for one arm per learning rate, `<arm>-<rate>`."""
    if "rates" not in raw:
        return raw
    arms = {
        f"{arm}-{rate}": merged(own, {"training": {"learning_rate": float(rate)}})
        for arm, own in raw["arms"].items()
        for rate in raw["rates"]
    }
    regimes = {
        name: {**own, "arms": [f"{arm}-{rate}" for rate in raw["rates"] for arm in own["arms"]]}
        for name, own in raw["regimes"].items()
    }
    seconds = {f"{arm}-{rate}": took for arm, took in raw["seconds"].items() for rate in raw["rates"]}
    return {**raw, "arms": arms, "regimes": regimes, "seconds": {**raw["seconds"], **seconds}}


def validated(*layers: Mapping[str, Any]) -> Config:
    return Config.model_validate({key: value for key, value in merged(*layers).items() if key not in OF_THE_RUNNER})


def merged(*layers: Mapping[str, Any]) -> dict[str, Any]:
    """Later layers win; sections are merged key by key."""
    result: dict[str, Any] = {}
    for layer in layers:
        for key, value in layer.items():
            result[key] = merged(result.get(key, {}), value) if isinstance(value, Mapping) else value
    return result
