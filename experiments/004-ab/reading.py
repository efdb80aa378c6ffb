"""The raw files of the plan as numbers: one `Finished` per run, one `Started` per seed. Reads results/<regime>."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from composer_replication.evaluation.metrics import area_under, pass_at_k
from shared.crossing import first_crossing
from shared.result_lines import read_result
from shared.runner.plan import FEWEST_SITES

ROLLOUTS_PER_STEP = 128
UNPARSABLE = "json_decode"
"""The kind of error that ends an episode; after any other the policy can still put things right."""
FREQUENT_KINDS = (UNPARSABLE, "type_error")
Line = Mapping[str, Any]


class Started(NamedTuple):
    """A start as it was measured and probed before any arm. `gap` pools the kinds that are on."""

    regime: str
    seed: int
    sha256: str
    success: float
    entropy: float
    kinds_on: tuple[str, ...]
    gaps: Mapping[str, Line]
    right: Mapping[str, float]
    """Share of right turns over all probed sites, by condition: plain, hint, sham."""

    @property
    def gap(self) -> float:
        return self.right["hint"] - self.right["plain"]


class Finished(NamedTuple):
    regime: str
    arm: str
    seed: int
    header: Line
    steps: Sequence[Line]
    curve: Sequence[tuple[int, float]]
    """Held-out success from step 0, the start, to the last one."""
    tasks: Mapping[str, float]
    """Share of a held-out task's samples that succeed."""
    numbers: Mapping[str, float]
    alarms: Sequence[str]


def starts(folder: Path) -> dict[int, Started]:
    found = [read_start(path) for path in sorted(folder.glob("start-*.jsonl.zst"))]
    return {start.seed: start for start in found}


def runs(folder: Path, started: Mapping[int, Started]) -> list[Finished]:
    others = [path for path in sorted(folder.glob("*.jsonl.zst")) if not path.name.startswith(("start-", "data-"))]
    return [read_run(path, started) for path in others]


def read_start(path: Path) -> Started:
    lines = list(read_result(path))
    head = next(line for line in lines if line["line"] == "start")
    final = next(line for line in lines if line["line"] == "final")
    gaps = {line["kind"]: line for line in lines if line["line"] == "gap" and line["kind"] != "all"}
    tried = [line for line in lines if line["line"] == "tried"]
    return Started(
        regime=head["regime"],
        seed=head["seed"],
        sha256=head["start_sha256"],
        success=final["success"],
        entropy=final["entropy"],
        kinds_on=tuple(sorted(k for k, line in gaps.items() if line["useful"] and line["sites"] >= FEWEST_SITES)),
        gaps=gaps,
        right={
            condition: _mean([line["right"] for line in tried if line["condition"] == condition])
            for condition in ("plain", "hint", "sham")
        },
    )


def read_run(path: Path, started: Mapping[int, Started]) -> Finished:
    lines = list(read_result(path))
    head = next(line for line in lines if line["line"] == "run")
    start = started[head["seed"]]
    if head["start_sha256"] != start.sha256:
        raise ValueError(f"{path.name} did not begin from the start of its seed")
    final = {line["split"]: line for line in lines if line["line"] == "final"}
    tasks = [line for line in lines if line["line"] == "task" and line["split"] == "heldout"]
    steps = [line for line in lines if line["line"] == "step"]
    last = head["config"]["training"]["steps"]
    held = final["heldout"]
    success = _mean([_mean(line["rewards"]) for line in tasks])
    between = [(line["step"], line["success"]) for line in lines if line["line"] == "curve"]
    curve = [(0, start.success), *between, (last, success)]
    return Finished(
        regime=head["regime"],
        arm=head["arm"],
        seed=head["seed"],
        header=head,
        steps=steps,
        curve=curve,
        tasks={line["task_id"]: _mean(line["rewards"]) for line in tasks},
        numbers={
            "success": success,
            "area": area_under(*zip(*curve, strict=True)),
            "errors_on": errors_per_turn(tasks, start.kinds_on),
            "errors": held["errors_per_turn"],
            **{f"errors/{kind}": errors_per_turn(tasks, [kind]) for kind in FREQUENT_KINDS},
            "recovery": held["recovery"],
            "recovery_parsable": recovery_parsable(tasks),
            "entropy": held["entropy"],
            "entropy_kept": held["entropy"] / start.entropy,
            "kl": held["kl_to_start"],
            **{split: final[split]["success"] for split in ("renames", "compositions") if split in final},
            "tokens": sum(line.get("completions/mean_length", 0.0) for line in steps) * ROLLOUTS_PER_STEP,
            "seconds": head["train_s"],
        }
        | _pass_at_8(tasks),
        alarms=[line["name"] for line in lines if line["line"] == "alarm"],
    )


def _pass_at_8(tasks: Sequence[Line]) -> dict[str, float]:
    """Where a task has fewer samples, as in the map, there is no such number."""
    if any(len(line["rewards"]) < 8 for line in tasks):
        return {}
    return {"pass@8": _mean([pass_at_k(sum(line["rewards"]), len(line["rewards"]), 8) for line in tasks])}


def errors_per_turn(tasks: Sequence[Line], kinds: Sequence[str]) -> float:
    turns = sum(sum(line["turns"]) for line in tasks)
    return sum(error in kinds for line in tasks for sample in line["errors"] for error in sample) / turns


def recovery_parsable(tasks: Sequence[Line]) -> float:
    """Share of the episodes with errors, all of them in calls that could be read, that succeed."""
    episodes = [one for line in tasks for one in zip(line["rewards"], line["errors"], strict=True)]
    return _mean([reward for reward, errors in episodes if errors and UNPARSABLE not in errors])


def rollouts_to(curve: Sequence[tuple[int, float]], level: float) -> float | None:
    """Rollouts until the straight lines between the measured points reach a success; None where they do not."""
    step = first_crossing(curve, level)
    return None if step is None else step * ROLLOUTS_PER_STEP


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
