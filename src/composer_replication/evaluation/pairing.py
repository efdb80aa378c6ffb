"""How two arms belong together: by seed, by task, or not at all. Reads two `Arm`s, writes what can be compared.

Pairing takes out what both sides share (a start, a task's difficulty). It is refused rather than guessed where a
partner is missing: leaving out the runs that one side lost would choose the result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from composer_replication.errors import UsageError

from .metrics import mean
from .outcomes import Arm

Pairing = Literal["auto", "task", "seed", "no"]


class PairedSeeds(NamedTuple):
    """Second − first for each task of each seed."""

    differences: Mapping[str, Mapping[str, float]]
    notes: tuple[str, ...]

    @property
    def shared_tasks(self) -> bool:
        first = set(next(iter(self.differences.values())))
        return all(set(tasks) == first for tasks in self.differences.values())

    def by_seed(self) -> dict[str, float]:
        return {seed: mean(list(tasks.values())) for seed, tasks in self.differences.items()}


class PairedTasks(NamedTuple):
    first: Mapping[str, float]
    second: Mapping[str, float]
    clusters: Mapping[str, str]
    notes: tuple[str, ...]


class Unpaired(NamedTuple):
    """`unit` is what was drawn independently: runs where both arms have several, else tasks."""

    unit: Literal["seed", "task"]
    first: Mapping[str, float]
    second: Mapping[str, float]
    clusters: tuple[Mapping[str, str], Mapping[str, str]]
    notes: tuple[str, ...]


def pair(first: Arm, second: Arm, asked: Pairing = "auto") -> PairedSeeds | PairedTasks | Unpaired:
    several = min(len(first.seeds), len(second.seeds)) > 1
    same_seeds = first.seeds == second.seeds
    if asked == "seed" or (asked == "auto" and several and same_seeds and _all_seeds_share(first, second)):
        return _by_seed(first, second)
    if asked == "task" or (asked == "auto" and not several and _common(first.tasks, second.tasks)):
        return _by_task(first, second)
    return _unpaired(first, second, asked, several)


def _by_seed(first: Arm, second: Arm) -> PairedSeeds:
    if min(len(first.seeds), len(second.seeds)) < 2:
        raise UsageError(
            f"cannot pair by seed: {_single(first, second)}, which says nothing about other runs of the same recipe",
            "repeat with more seeds, or --paired task to compare these two checkpoints",
        )
    if first.seeds != second.seeds:
        raise UsageError(f"cannot pair by seed: {_missing(first, second)}", "run the missing seeds, or --paired no")
    differences: dict[str, dict[str, float]] = {}
    alone = 0
    for seed in first.seeds:
        left, right = first.values[seed], second.values[seed]
        differences[seed] = {task: right[task] - left[task] for task in _common(list(left), list(right))}
        alone += len(left.keys() ^ right.keys())
        if not differences[seed]:
            raise UsageError(f"seed {seed} of {first.name} and {second.name} has no common tasks", "--paired no")
    return PairedSeeds(differences, _left_out(alone))


def _by_task(first: Arm, second: Arm) -> PairedTasks:
    left, right = first.by_task(), second.by_task()
    common = _common(first.tasks, second.tasks)
    if not common:
        reason = f"{first.name} and {second.name} have no common tasks, so no task can be compared with itself"
        raise UsageError(reason, "evaluate both on the same tasks, or --paired no")
    notes = [*_left_out(len(left.keys() ^ right.keys())), _one_run_says(first, second)]
    named = {**second.clusters, **first.clusters}
    clusters = {task: named[task] for task in common if task in named}
    return PairedTasks(
        {task: left[task] for task in common}, {task: right[task] for task in common}, clusters, tuple(notes)
    )


def _unpaired(first: Arm, second: Arm, asked: Pairing, several: bool) -> Unpaired:
    notes: list[str] = []
    if several:
        if asked == "auto" and first.seeds != second.seeds:
            notes.append(f"The seeds differ ({_missing(first, second)}), so the runs are not paired.")
        return Unpaired("seed", first.by_seed(), second.by_seed(), ({}, {}), tuple(notes))
    if not _common(first.tasks, second.tasks):
        notes.append("The arms have no common tasks: a difference may come from the tasks as well as from the policy.")
    notes.append(_one_run_says(first, second))
    return Unpaired("task", first.by_task(), second.by_task(), (first.clusters, second.clusters), tuple(notes))


def _all_seeds_share(first: Arm, second: Arm) -> bool:
    return all(_common(list(first.values[seed]), list(second.values[seed])) for seed in first.seeds)


def _common(first: Sequence[str], second: Sequence[str]) -> list[str]:
    there = set(second)
    return [name for name in first if name in there]


def _missing(first: Arm, second: Arm) -> str:
    said = [
        f"{there.name} lacks seed {', '.join(lacking)}"
        for here, there in ((first, second), (second, first))
        if (lacking := [seed for seed in here.seeds if seed not in there.seeds])
    ]
    return "; ".join(said)


def _left_out(alone: int) -> tuple[str, ...]:
    if not alone:
        return ()
    return (f"{alone} outcomes have no partner and are left out; if they failed, write them with reward 0.",)


def _one_run_says(first: Arm, second: Arm) -> str:
    if min(len(first.seeds), len(second.seeds)) > 1:
        return "Tasks are the unit: this is about these runs, not about new runs of the same recipe."
    which = _single(first, second)
    return f"{which}: this is about these checkpoints on tasks like these, not about new runs of the same recipe."


def _single(first: Arm, second: Arm) -> str:
    single = [arm.name for arm in (first, second) if len(arm.seeds) == 1]
    return f"{single[0]} has one run" if len(single) == 1 else f"{single[0]} and {single[1]} have one run each"
