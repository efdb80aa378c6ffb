"""The files of a whole queue as numbers: one `Start` per regime and seed, one `Trained` per arm and seed.

Refuses a queue with gaps: a plan decides on all of its seeds or on none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from composer_replication.errors import RecomposeError
from composer_replication.evaluation.metrics import area_under, pass_at_k
from shared.result_lines import SUFFIX, read_result
from shared.runner.plan import Plan

SHOWN_MISSING = 4
NUMBERS_AT_END = ("errors_per_turn", "entropy", "kl_to_start")
MEANS_OVER_STEPS = ("sdpo/sites", "replay/pairs", "prefix/states", "self_distillation/reprompt_sample_fraction")
Line = Mapping[str, Any]


class Point(NamedTuple):
    """One measurement: of each held-out task, in the tasks' order, how many of its samples succeed."""

    samples: int
    solved: tuple[int, ...]

    @property
    def shares(self) -> list[float]:
        return [solved / self.samples for solved in self.solved]

    @property
    def success(self) -> float:
        return sum(self.solved) / (self.samples * len(self.solved))


class Start(NamedTuple):
    sha256: str
    plain: Point
    reminded: Mapping[str, Point]
    right: Mapping[str, float]
    """Share of error turns that the probe found right, by condition; empty where it found no error turn."""
    task_ids: tuple[str, ...]

    def gap(self, name: str) -> float:
        return self.right["hint"] - self.right[{"content gap": "sham", "full gap": "plain"}[name]]


class Trained(NamedTuple):
    last_step: int
    horizon: int
    points: Mapping[int, Point]
    """By step, in order, from 0, the start, to the last one."""
    numbers: Mapping[str, float]
    """At the end, or over all steps."""
    steps: Sequence[Line]
    """What training logged."""
    alarms: tuple[str, ...]
    stopped: str | None

    @property
    def curve(self) -> list[tuple[float, float]]:
        """Steps and success from the start to the horizon: the plan's, or else the end."""
        if self.horizon not in self.points:
            raise ValueError(f"a run to step {self.last_step} was not measured at step {self.horizon}")
        return [(step, point.success) for step, point in self.points.items() if step <= self.horizon]

    @property
    def speed(self) -> float:
        """Mean height of that curve."""
        return area_under([step for step, _ in self.curve], [success for _, success in self.curve])


class Cell(NamedTuple):
    """A regime."""

    starts: Mapping[int, Start]
    arms: Mapping[str, Mapping[int, Trained]]
    data: Mapping[int, Line]
    """What teachers made of a seed's rollouts, where they were asked."""
    orphans: int
    """Runs that were set aside as their start or data could not be made again."""


def read_results(plan: Plan, results: Path, experiment: str) -> dict[str, Cell]:
    wanted = [f"{regime}/{name}-{seed}" for regime, name, seed in _files(plan)]
    missing = [name for name in wanted if not (results / f"{name}{SUFFIX}").is_file()]
    if missing:
        shown = ", ".join(missing[:SHOWN_MISSING]) + (", …" if len(missing) > SHOWN_MISSING else "")
        raise RecomposeError(
            f"incomplete: {len(missing)} of {len(wanted)} jobs are missing ({shown}), so that nothing was computed",
            f"recompose experiment run experiments/{experiment}",
        )
    return {regime: _cell(plan, regime, results / regime) for regime in plan.regimes}


def _files(plan: Plan) -> list[tuple[str, str, int]]:
    return [
        (regime, name, seed)
        for regime in plan.regimes
        for name in ("start", *(["data"] if plan.needs_pairs(regime) else []), *plan.arms(regime))
        for seed in plan.raw["regimes"][regime]["seeds"]
    ]


def _cell(plan: Plan, regime: str, folder: Path) -> Cell:
    seeds = plan.raw["regimes"][regime]["seeds"]
    starts = {seed: _read_start(folder / f"start-{seed}{SUFFIX}") for seed in seeds}
    data = {}
    if plan.needs_pairs(regime):
        data = {seed: next(iter(read_result(folder / f"data-{seed}{SUFFIX}"))) for seed in seeds}
    curve = sorted(int(step) for step in plan.raw["measuring"]["curve"])
    arms = {
        arm: {
            seed: _read_run(folder / f"{arm}-{seed}{SUFFIX}", start, data.get(seed), curve, plan.raw.get("horizon"))
            for seed, start in starts.items()
        }
        for arm in plan.arms(regime)
    }
    return Cell(starts, arms, data, len(list((folder / "orphans").glob(f"*{SUFFIX}"))))


def _read_start(path: Path) -> Start:
    lines = list(read_result(path))
    head = next(line for line in lines if line["line"] == "start")
    tasks = [line for line in lines if line["line"] == "task"]
    reminded = [line for line in lines if line["line"] == "reminded_task"]
    gap = next((line for line in lines if line["line"] == "gap" and line["kind"] == "all"), None)
    conditions = dict.fromkeys(line["condition"] for line in reminded)
    return Start(
        sha256=head["start_sha256"],
        plain=_point(tasks),
        reminded={name: _point([line for line in reminded if line["condition"] == name]) for name in conditions},
        right={condition: found["mean"] for condition, found in gap["right"].items()} if gap else {},
        task_ids=tuple(line["task_id"] for line in tasks),
    )


def _read_run(path: Path, start: Start, data: Line | None, planned: Sequence[int], horizon: int | None) -> Trained:
    lines = list(read_result(path))
    head = next(line for line in lines if line["line"] == "run")
    tasks = [line for line in lines if line["line"] == "task"]
    if head["start_sha256"] != start.sha256:
        raise ValueError(f"{path.name} did not begin from the start of its seed")
    if data and head.get("data_sha256", data["data_sha256"]) != data["data_sha256"]:
        raise ValueError(f"{path.name} was not trained on the data of its seed")
    if tuple(line["task_id"] for line in tasks) != start.task_ids:
        raise ValueError(f"{path.name} was measured on other tasks than its start")
    last, end = head["last_step"], _point(tasks)
    curve = [line for line in lines if line["line"] == "curve"]
    measured = {line["step"]: Point(line["samples"], tuple(line["solved"])) for line in curve}
    points = {0: start.plain}
    for step in (step for step in planned if step < last):
        # A run that was ended early counts with the policy that it had then.
        points[step] = measured.get(step, end) if head["stopped"] else measured[step]
    final = next(line for line in lines if line["line"] == "final")
    steps = [line for line in lines if line["line"] == "step"]
    return Trained(
        last_step=last,
        horizon=horizon or last,
        points=points | {last: end},
        numbers={
            "success": end.success,
            f"pass@{end.samples}": fmean(pass_at_k(solved, end.samples, end.samples) for solved in end.solved),
            **{name: final[name] for name in NUMBERS_AT_END if name in final},
            "seconds": head["train_s"],
            **_over_steps(steps),
        },
        steps=steps,
        alarms=tuple(line["name"] for line in lines if line["line"] == "alarm"),
        stopped=head["stopped"],
    )


def _point(tasks: Sequence[Line]) -> Point:
    (samples,) = {len(line["rewards"]) for line in tasks}
    return Point(samples, tuple(sum(line["rewards"]) for line in tasks))


def _over_steps(steps: Sequence[Line]) -> dict[str, float]:
    names = [name for name in MEANS_OVER_STEPS if any(name in line for line in steps)]
    found = {name: fmean(line.get(name, 0.0) for line in steps) for name in names}
    doses = _doses(steps)
    return {**found, "dose": fmean(doses)} if doses else found


def _doses(steps: Sequence[Line]) -> list[float]:
    """The added channel's gradient as a multiple of the policy's, as it was applied.

    A step logs the gradient before its factor, and the factor of the next step.
    """
    doses: list[float] = []
    factor: dict[str, float] = {}
    for line in steps:
        for channel in ("sdpo", "replay", "prefix"):
            norm = line.get(f"gradient/{channel}")
            if norm is not None and channel in factor and line["gradient/policy"]:
                doses.append(norm * factor[channel] / line["gradient/policy"])
            factor[channel] = line.get(f"gradient/{channel}_factor", factor.get(channel, 0.0))
    return doses
