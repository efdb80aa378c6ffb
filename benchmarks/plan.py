"""Fits the costs of `recompose plan` to measured runs and tells its error on runs that the fit has not seen.

    python benchmarks/plan.py                                    error of the costs that ship, on the held-out runs
    python benchmarks/plan.py --fit --costs src/composer_replication/training/planning/costs.json

Reads `results/plan.json` (measured by `benchmarks/plan_runs.py`; which runs are held out stands there). Every cost is
0 or more; sampling and training are fitted apart, by least squares of relative errors. Held-out runs decide nothing.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from composer_replication.objective import TrdpoSettings
from composer_replication.training.models.shape import ModelShape, shape_of
from composer_replication.training.planning.costs import (
    Costs,
    Episodes,
    SamplingWork,
    TrainingWork,
    known_costs,
    sampling_work,
    training_work,
    wire_bytes,
)
from composer_replication.training.planning.layouts import SITES_PER_ROLLOUT
from composer_replication.training.planning.plan import Machine, SlotRoom, workload

if __package__:
    from .plan_runs import SHAPES, Case, settings
else:
    from plan_runs import SHAPES, Case, settings

RESULTS = Path(__file__).parent / "results" / "plan.json"
COMMAND = "python benchmarks/plan.py --fit"
GIB = 1 << 30
NVLINK_BYTES_PER_S = 300e9
"""Of one H200 in one direction, 450 by its data sheet; nobody here had two."""
LEAST_FLOP_S = {"h200": 1 / 620e12}
"""What bare products take (`results/divergence.json`, 4,096 tokens). The runs here are too small to show it: without
this bound the fit says that products are free, which would make a large model much too fast."""


def shape_named(name: str) -> ModelShape:
    from transformers import LlamaConfig

    return shape_of(LlamaConfig(**{"tie_word_embeddings": True, "max_position_embeddings": 4096, **SHAPES[name]}))


def work_of(kind: str, run: dict[str, Any]) -> tuple[SamplingWork, TrainingWork]:
    """What one process did in one step, by the lengths that were seen."""
    case = Case(**{name: run[name] for name in Case._fields})
    shape, config = shape_named(case.shape), settings(case)
    machine = Machine(case.processes, case.sharded, kind != "cpu")
    prompt, turns, turn_tokens, _ = case.tokens
    if stored_tokens := run.get("stored_tokens", 0):
        config = config.model_copy(update={"channels": (*config.channels, TrdpoSettings())})
    work = workload(config, run["longest_tokens"], stored_tokens, machine, SlotRoom(prompt, run["longest_tokens"]))
    episodes = Episodes(turns, run.get("rounds", turns * turn_tokens), prompt)
    sent = wire_bytes(shape, config, work, case.processes)
    on_wire = 0.0 if case.processes == 1 else sent.fsdp2 if case.sharded else sent.ddp
    sites = SITES_PER_ROLLOUT * work.sampled_rows if case.sdpo else 0
    return sampling_work(shape, config, work, episodes), training_work(shape, config, work, sites, on_wire)


def measured(run: dict[str, Any]) -> tuple[float, float]:
    """Medians of sampling and of the rest of a step; where only steps were timed, all of it is the rest."""
    sampling = statistics.median(run["sampling_s"] or [0.0])
    return sampling, statistics.median(run["step_s"]) - sampling


def non_negative(work: np.ndarray, seconds: np.ndarray, least: np.ndarray) -> np.ndarray:
    """What costs beyond `least`: least squares of relative errors, the best of all subsets, of which there are few."""
    rows, rest = work / seconds[:, None], 1 - (work @ least) / seconds
    scale = rows.max(0)
    scale[scale == 0] = 1.0
    best, best_loss = np.zeros(work.shape[1]), np.inf
    for size in range(1, work.shape[1] + 1):
        for chosen in map(list, combinations(range(work.shape[1]), size)):
            scaled = rows[:, chosen] / scale[chosen]
            found = np.linalg.lstsq(scaled, rest, rcond=None)[0]
            loss = float(np.square(scaled @ found - rest).sum())
            if (found >= 0).all() and loss < best_loss - 1e-12:
                best_loss, best = loss, np.zeros(work.shape[1])
                best[chosen] = found / scale[chosen]
    return best


def fit(kind: str, runs: dict[str, dict[str, Any]]) -> tuple[SamplingWork, TrainingWork]:
    seen = [run for run in runs.values() if not run["is_held_out"]]
    works, seconds = [work_of(kind, run) for run in seen], [measured(run) for run in seen]
    least = (np.zeros(len(SamplingWork._fields)), np.zeros(len(TrainingWork._fields)))
    least[1][TrainingWork._fields.index("flop")] = LEAST_FLOP_S.get(kind, 0.0)
    sampling, training = (
        least[part]
        + non_negative(
            np.array([work[part] for work in works]), np.array([each[part] for each in seconds]), least[part]
        )
        for part in (0, 1)
    )
    return SamplingWork(*map(float, sampling)), TrainingWork(*map(float, training))


def foreseen(costs: Costs, kind: str, run: dict[str, Any]) -> tuple[float, float]:
    sampling, training = work_of(kind, run)
    return costs.sampling_s(sampling), costs.training_s(training) + costs.wire_s(training)


def errors(costs: Costs, kind: str, runs: dict[str, dict[str, Any]], is_held_out: bool) -> dict[str, float]:
    """Relative, of the seconds of a whole step."""
    return {
        name: sum(foreseen(costs, kind, run)) / sum(measured(run)) - 1
        for name, run in runs.items()
        if run["is_held_out"] == is_held_out
    }


def tell(kind: str, costs: Costs, runs: dict[str, dict[str, Any]]) -> None:
    print(f"\n| {kind} | held out | step, s | foreseen, s | error | sampling, s | foreseen, s |")
    print("|---|---|---|---|---|---|---|")
    for name, run in runs.items():
        (sampling, training), (about_sampling, about_training) = measured(run), foreseen(costs, kind, run)
        step, about = sampling + training, about_sampling + about_training
        print(
            f"| {name} | {'yes' if run['is_held_out'] else ''} | {step:.3f} | {about:.3f} | {about / step - 1:+.1%} | "
            f"{sampling:.3f} | {about_sampling:.3f} |"
        )


def summary(found: dict[str, float]) -> dict[str, Any]:
    """The largest error is rounded up, so that an interval made of it holds the run that it belongs to."""
    sizes = [abs(error) for error in found.values()]
    return {
        "n": len(sizes),
        "median_error": round(statistics.median(sizes), 4),
        "largest_error": math.ceil(max(sizes) * 1e4) / 1e4,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, default=RESULTS)
    parser.add_argument("--fit", action="store_true")
    parser.add_argument("--costs", type=Path)
    given = parser.parse_args()
    runs: dict[str, Any] = json.loads(given.runs.read_text())
    machines = runs.pop("machines")
    if given.fit:
        written = {kind: fitted(kind, of_kind, machines[kind]) for kind, of_kind in runs.items()}
        text = json.dumps(written, indent=1) + "\n"
        given.costs.write_text(text) if given.costs else print(text)
    known, held_out = known_costs(given.costs), {}
    for kind, of_kind in runs.items():
        tell(kind, known[kind], of_kind)
        found = errors(known[kind], kind, of_kind, is_held_out=True)
        held_out |= {f"{kind}: {name}": error for name, error in found.items()}
        print(f"{kind}, held out: {summary(found)}; fitted: {summary(errors(known[kind], kind, of_kind, False))}")
    print(f"\nall held out: {summary(held_out)}")


def fitted(kind: str, runs: dict[str, dict[str, Any]], machine: dict[str, Any]) -> dict[str, Any]:
    sampling, training = fit(kind, runs)
    assumed: list[str] = []
    if not training.wire_bytes:
        training = training._replace(wire_bytes=1 / NVLINK_BYTES_PER_S)
        assumed = [f"{NVLINK_BYTES_PER_S / 1e9:.0f} GB/s between GPUs of one machine"]
    layouts = {
        ("one process" if run["processes"] == 1 else "fsdp2" if run["sharded"] else "ddp", run["processes"])
        for run in runs.values()
    }
    made: dict[str, Any] = {
        "device": machine["device"],
        "memory_bytes": machine["memory_gib"] * GIB,
        "date": max(run["date"] for run in runs.values()),
        "command": COMMAND,
        "measured": sorted(layouts),
        "assumed": assumed,
        "sampling": sampling._asdict(),
        "training": training._asdict(),
    }
    trial = Costs(kind=kind, held_out={}, fitted={}, **{**made, "sampling": sampling, "training": training})
    found = {name: summary(errors(trial, kind, runs, name == "held_out")) for name in ("held_out", "fitted")}
    return {**made, **found}


if __name__ == "__main__":
    main()
