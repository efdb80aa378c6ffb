"""The files of the whole queue as numbers: one `Start` per seed, one `Trained` per arm and seed.

Reads results/low-strong. Refuses a queue with gaps: the plan decides on all eight seeds or on none. An interim look
takes the seeds that have all their runs.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from composer_replication.errors import RecomposeError
from composer_replication.evaluation.metrics import pass_at_k
from shared.result_lines import SUFFIX, read_result

REGIME = "low-strong"
SHOWN_MISSING = 4
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
    seed: int
    sha256: str
    plain: Point
    reminded: Mapping[str, Point]
    task_ids: tuple[str, ...]


class Trained(NamedTuple):
    arm: str
    seed: int
    last_step: int
    points: Mapping[int, Point]
    """By step, in order, from 0, the start, to the last one."""
    numbers: Mapping[str, float]
    """At the end, or over all steps."""
    tokens: Mapping[int, float]
    """By step: prompts and answers of all rollouts up to it."""
    alarms: tuple[str, ...]
    stopped: str | None

    def tokens_until(self, step: float) -> float:
        return max((tokens for played, tokens in self.tokens.items() if played <= step), default=0.0)


class Results(NamedTuple):
    starts: Mapping[int, Start]
    arms: Mapping[str, Mapping[int, Trained]]
    orphans: int
    """Runs that were set aside as their start could not be made again."""

    @property
    def seeds(self) -> list[int]:
        return list(self.starts)


def read_results(plan: Path, results: Path, *, interim: bool = False) -> Results:
    asked = tomllib.loads(plan.read_text(encoding="utf-8"))
    folder, regime = results / REGIME, asked["regimes"][REGIME]
    wanted = {seed: [f"{name}-{seed}" for name in ("start", *regime["arms"])] for seed in regime["seeds"]}
    gaps = {
        seed: [name for name in names if not (folder / f"{name}{SUFFIX}").is_file()] for seed, names in wanted.items()
    }
    missing = [name for names in gaps.values() for name in names]
    if missing and not interim:
        shown = ", ".join(missing[:SHOWN_MISSING]) + (", …" if len(missing) > SHOWN_MISSING else "")
        jobs = sum(map(len, wanted.values()))
        raise RecomposeError(
            f"incomplete: {len(missing)} of {jobs} jobs are missing ({shown}), so that nothing was computed",
            "recompose experiment run experiments/009-rates",
        )
    starts = {seed: _read_start(folder / f"start-{seed}{SUFFIX}") for seed, missing in gaps.items() if not missing}
    curve = sorted(int(step) for step in asked["measuring"]["curve"])
    arms = {
        arm: {seed: _read_run(folder / f"{arm}-{seed}{SUFFIX}", start, curve) for seed, start in starts.items()}
        for arm in regime["arms"]
    }
    return Results(starts, arms, len(list((folder / "orphans").glob(f"*{SUFFIX}"))))


def _read_start(path: Path) -> Start:
    lines = list(read_result(path))
    head = next(line for line in lines if line["line"] == "start")
    tasks = [line for line in lines if line["line"] == "task"]
    reminded = [line for line in lines if line["line"] == "reminded_task"]
    conditions = dict.fromkeys(line["condition"] for line in reminded)
    return Start(
        seed=head["seed"],
        sha256=head["start_sha256"],
        plain=_point(tasks),
        reminded={name: _point([line for line in reminded if line["condition"] == name]) for name in conditions},
        task_ids=tuple(line["task_id"] for line in tasks),
    )


def _read_run(path: Path, start: Start, planned: Sequence[int]) -> Trained:
    lines = list(read_result(path))
    head = next(line for line in lines if line["line"] == "run")
    tasks = [line for line in lines if line["line"] == "task"]
    if head["start_sha256"] != start.sha256:
        raise ValueError(f"{path.name} did not begin from the start of its seed")
    if tuple(line["task_id"] for line in tasks) != start.task_ids:
        raise ValueError(f"{path.name} was measured on other tasks than its start")
    last, end = head["last_step"], _point(tasks)
    measured = {
        line["step"]: Point(line["samples"], tuple(line["solved"])) for line in lines if line["line"] == "curve"
    }
    points = {0: start.plain}
    for step in (step for step in planned if step < last):
        # A run that was ended early counts with the policy that it had then.
        points[step] = measured.get(step, end) if head["stopped"] else measured[step]
    final = next(line for line in lines if line["line"] == "final")
    steps = [line for line in lines if line["line"] == "step"]
    return Trained(
        arm=head["arm"],
        seed=head["seed"],
        last_step=last,
        points=points | {last: end},
        numbers={
            "success": end.success,
            "pass@8": fmean(pass_at_k(solved, end.samples, 8) for solved in end.solved),
            "errors_per_turn": final["errors_per_turn"],
            "entropy": final["entropy"],
            "kl_to_start": final["kl_to_start"],
            "seconds": head["train_s"],
            **_means_over_steps(steps),
        },
        tokens={line["step"]: line["num_tokens"] for line in steps if "num_tokens" in line},
        alarms=tuple(line["name"] for line in lines if line["line"] == "alarm"),
        stopped=head["stopped"],
    )


def _point(tasks: Sequence[Line]) -> Point:
    (samples,) = {len(line["rewards"]) for line in tasks}
    return Point(samples, tuple(sum(line["rewards"]) for line in tasks))


def _means_over_steps(steps: Sequence[Line]) -> dict[str, float]:
    names = ("grad_norm", "gradient/policy", "gradient/sdpo", "gradient/sdpo_factor")
    return {name: fmean(values) for name in names if (values := [line[name] for line in steps if name in line])}
