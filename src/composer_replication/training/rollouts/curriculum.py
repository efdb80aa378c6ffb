"""Which tasks to train on next, from how often the policy has solved each of them.

A task's pass rate has a Beta posterior, started from the prior and forgetting old results slowly, since the policy
changes. Tasks whose rate is believed to lie between 0.05 and 0.95 are drawn with weight p(1 − p), where a group of
rollouts teaches most; a task that nobody has tried counts as open. A task above 0.95 for two epochs is retired, and a
harder relative takes its place; one that is never solved hands over to an easier relative. An epoch is over when as
many results have come in as tasks are open. Sampling is deterministic by seed, and the whole state is JSON.

Knows tasks by their ids and by two labels that an environment may give: `family` (tasks on the same thing) and `rung`
(texts that sort, the easiest first). Without them every task is a family of its own.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from typing import Literal, Self

from pydantic import Field

from composer_replication.environments.protocol import EnvironmentTask
from composer_replication.errors import UsageError
from composer_replication.records import JsonObject, Record, StoredRecord

StandingKind = Literal["waiting", "open", "retired"]


class CurriculumSettings(Record):
    """Which pass rates are wanted, and how they are believed."""

    low: float = 0.05
    """Tasks that are believed to be solved less often are not drawn."""
    high: float = 0.95
    """Nor are those that are solved more often."""
    retire_after_epochs: int = Field(default=2, ge=1)
    """Epochs above `high`, one after the other."""
    min_tries: int = Field(default=4, ge=1)
    """Results before a rate is believed."""
    memory: float = Field(default=0.9, gt=0.0, le=1.0)
    """Share of the earlier evidence that an epoch keeps."""
    explore: float = Field(default=0.1, ge=0.0, lt=1.0)
    """Share of draws that go to any open task, so that one which looks hopeless is tried again."""


class TaskStanding(Record):
    """One task and what is known of it."""

    task_id: str
    family: str
    """Tasks on the same thing."""
    rung: str = ""
    """How hard within the family; texts that sort, the easiest first."""
    standing: StandingKind = "open"
    """`waiting` for an easier one, `open` to be drawn, or `retired`."""
    passed: float = 0.0
    """Successes, where old ones count less."""
    tried: float = 0.0
    """Results, where old ones count less."""
    epochs_above: int = 0
    """Epochs above `high`, one after the other."""
    total_tried: int = 0
    """Results, all alike."""


class CurriculumState(StoredRecord):
    seed: int
    draws: int = 0
    epoch: int = 0
    results: int = 0
    settings: CurriculumSettings
    entries: tuple[TaskStanding, ...]


def entries_of(tasks: Iterable[EnvironmentTask]) -> list[TaskStanding]:
    return [
        TaskStanding(
            task_id=task.task_id, family=task.labels.get("family", task.task_id), rung=task.labels.get("rung", "")
        )
        for task in tasks
    ]


class Curriculum:
    """`sample`, roll out, `record`; `state` and `load` carry it over a stop."""

    def __init__(
        self, entries: Iterable[TaskStanding], seed: int = 0, settings: CurriculumSettings | None = None
    ) -> None:
        self.settings = settings or CurriculumSettings()
        self.seed, self.draws, self.epoch = seed, 0, 0
        self._results = 0
        self._entries = {entry.task_id: entry for entry in entries}
        if not self._entries:
            raise UsageError("a curriculum needs at least one task", "give the environment more tasks")

    @classmethod
    def laddered(
        cls, entries: Iterable[TaskStanding], seed: int = 0, settings: CurriculumSettings | None = None
    ) -> Self:
        """Start with the easiest task of every family; the others wait for their turn."""
        families: dict[str, list[TaskStanding]] = {}
        for entry in entries:
            families.setdefault(entry.family, []).append(entry)
        opened = [
            entry.model_copy(update={"standing": "open" if place == 0 else "waiting"})
            for family in families.values()
            for place, entry in enumerate(sorted(family, key=lambda each: each.rung))
        ]
        return cls(opened, seed, settings)

    @property
    def entries(self) -> Mapping[str, TaskStanding]:
        return self._entries

    def pass_rate(self, task_id: str) -> float:
        """Posterior mean under a flat prior."""
        entry = self._entries[task_id]
        return (entry.passed + 1.0) / (entry.tried + 2.0)

    def weight(self, task_id: str) -> float:
        """Of a draw; 0 for a task that is not open or is believed to be outside the wanted rates."""
        entry, rate = self._entries[task_id], self.pass_rate(task_id)
        if entry.standing != "open" or (self._is_known(entry) and not self._is_wanted(entry)):
            return 0.0
        return rate * (1.0 - rate)

    def sample(self, n: int) -> list[str]:
        """Ids of n tasks, without repeats while there are enough."""
        opened = self._open_tasks()
        if self._results >= len(opened):
            self.end_epoch()
            opened = self._open_tasks()
        draw = random.Random(f"{self.seed} {self.draws}")
        self.draws += 1
        chosen: list[str] = []
        while len(chosen) < n:
            left = [task_id for task_id in opened if task_id not in chosen] or opened
            weights = [self.weight(task_id) for task_id in left]
            if not any(weights) or draw.random() < self.settings.explore:
                weights = [1.0] * len(left)
            chosen += draw.choices(left, weights)
        return chosen

    def record(self, task_id: str, passed: int, tried: int) -> None:
        """Results of rollouts on one task."""
        if task_id not in self._entries:
            raise UsageError(f"the curriculum does not know the task {task_id}", "start a new one over these tasks")
        if not 0 <= passed <= tried:
            raise UsageError(f"{passed} of {tried} rollouts cannot have passed", "count again")
        self._results += 1
        entry = self._entries[task_id]
        self._update(
            entry, passed=entry.passed + passed, tried=entry.tried + tried, total_tried=entry.total_tried + tried
        )

    def end_epoch(self) -> list[str]:
        """Retire, escalate and step down; gives the ids that were opened. Then old evidence fades."""
        self.epoch += 1
        self._results = 0
        opened: list[str] = []
        for entry in list(self._entries.values()):
            if entry.standing != "open" or not self._is_known(entry):
                continue
            above = entry.epochs_above + 1 if self._rate(entry) > self.settings.high else 0
            self._update(entry, epochs_above=above)
            if above >= self.settings.retire_after_epochs:
                self._update(self._entries[entry.task_id], standing="retired")
                opened += self._open_relative(entry, harder=True)
            elif self._rate(entry) < self.settings.low:
                opened += self._open_relative(entry, harder=False)
        for entry in list(self._entries.values()):
            memory = self.settings.memory
            self._update(entry, passed=entry.passed * memory, tried=entry.tried * memory)
        return opened

    def state(self) -> JsonObject:
        made = CurriculumState(
            seed=self.seed,
            draws=self.draws,
            epoch=self.epoch,
            results=self._results,
            settings=self.settings,
            entries=tuple(self._entries.values()),
        )
        return made.model_dump(mode="json")

    def load(self, state: JsonObject) -> None:
        """Go on from there. Other tasks than those of the state are refused."""
        read = CurriculumState.model_validate(state)
        if {entry.task_id for entry in read.entries} != self._entries.keys():
            raise UsageError("the curriculum was begun with other tasks", "give the environment the tasks it had")
        self.seed, self.draws, self.epoch = read.seed, read.draws, read.epoch
        self._results, self.settings = read.results, read.settings
        self._entries = {entry.task_id: entry for entry in read.entries}

    def _open_tasks(self) -> list[str]:
        """Those that are retired where all others are too: there is always something to play."""
        entries = self._entries.items()
        opened = [task_id for task_id, entry in entries if entry.standing == "open"]
        return opened or [task_id for task_id, entry in entries if entry.standing == "retired"]

    def _rate(self, entry: TaskStanding) -> float:
        """As seen. The prior holds a rate away from 0 and 1 for so long that it would hide both ends."""
        return entry.passed / entry.tried if entry.tried else 0.5

    def _is_known(self, entry: TaskStanding) -> bool:
        return entry.tried >= self.settings.min_tries

    def _is_wanted(self, entry: TaskStanding) -> bool:
        return self.settings.low < self._rate(entry) < self.settings.high

    def _open_relative(self, entry: TaskStanding, *, harder: bool) -> list[str]:
        """The nearest waiting task of the family on that side."""
        waiting = [
            each for each in self._entries.values() if each.family == entry.family and each.standing == "waiting"
        ]
        side = [each for each in waiting if (each.rung > entry.rung) is harder and each.rung != entry.rung]
        if not side:
            return []
        nearest = min(side, key=lambda each: each.rung) if harder else max(side, key=lambda each: each.rung)
        self._update(nearest, standing="open")
        return [nearest.task_id]

    def _update(self, entry: TaskStanding, **changes: object) -> None:
        self._entries[entry.task_id] = self._entries[entry.task_id].model_copy(update=changes)
