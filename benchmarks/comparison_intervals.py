"""Do the intervals and tests of `recompose evaluate --compare` keep their promises? Simulated tables, no model.

    python benchmarks/comparison_intervals.py [--json benchmarks/results/comparison_intervals.json]

A table is paired differences of seeds × 64 shared tasks: what is peculiar to a seed, to a task, and to neither (normal,
true mean 0). Prints how often three 95 % intervals contain 0, and their width; then how often the exact sign-flip test
rejects at 0.05 under no effect and at the effect that `minimum_detectable_effect` promises to find 4 times in 5.
Takes about two minutes of one core.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from composer_replication.evaluation.clusters import clustered_mean, two_way_interval
from composer_replication.evaluation.power import minimum_detectable_effect
from composer_replication.evaluation.resampling import hierarchical_bootstrap
from composer_replication.evaluation.tests_of_difference import sign_flip

TASKS = 64
SPREADS = {
    "seeds differ little": (0.05, 0.0, 0.5),
    "seeds differ much": (0.15, 0.0, 0.3),
    "tasks differ too": (0.05, 0.2, 0.5),
}
"""Standard deviations of a seed's, a task's and a single outcome's own share."""
SEEDS = (3, 5, 8, 12)
TABLES = 500
RESAMPLES = 1_000
TESTS = 4_000


def coverage(seeds: int, spreads: tuple[float, float, float]) -> dict[str, dict[str, float]]:
    rng = np.random.default_rng(seeds)
    of_seed, of_task, rest = spreads
    found: dict[str, list[tuple[bool, float]]] = {"hierarchical bootstrap": [], "two-way": [], "t over seeds": []}
    for _ in range(TABLES):
        table = rng.normal(0, of_seed, (seeds, 1)) + rng.normal(0, of_task, (1, TASKS))
        table = table + rng.normal(0, rest, (seeds, TASKS))
        rows = table.tolist()
        estimates = (
            hierarchical_bootstrap(rows, resamples=RESAMPLES),
            two_way_interval(rows).estimate,
            clustered_mean(table.mean(axis=1).tolist(), range(seeds)).estimate,
        )
        for name, estimate in zip(found, estimates, strict=True):
            found[name].append((estimate.lo <= 0 <= estimate.hi, estimate.hi - estimate.lo))
    return {
        name: {"coverage": float(np.mean([c for c, _ in pairs])), "width": float(np.mean([w for _, w in pairs]))}
        for name, pairs in found.items()
    }


def rejections(seeds: int, alpha: float) -> dict[str, float]:
    noise = np.random.default_rng(100 + seeds).normal(size=(TESTS, seeds))
    effect = minimum_detectable_effect(1.0, seeds, alpha)
    return {
        "no effect": float(np.mean([sign_flip(row).p <= alpha for row in noise.tolist()])),
        "detectable effect": float(np.mean([sign_flip(row).p <= alpha for row in (noise + effect).tolist()])),
        "effect in standard deviations": effect,
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    result: dict[str, Any] = {"tables": TABLES, "tests": TESTS, "tasks": TASKS, "coverage": {}, "sign_flip": {}}
    for name, spreads in SPREADS.items():
        for seeds in SEEDS:
            row = coverage(seeds, spreads)
            result["coverage"][f"{name}, {seeds} seeds"] = row
            print(f"{name:<22}{seeds:>3} seeds  ", end="")
            print("   ".join(f"{key} {value['coverage']:.3f} ({value['width']:.3f})" for key, value in row.items()))
    for seeds, alpha in ((6, 0.05), (7, 0.05), (8, 0.05), (12, 0.05), (8, 0.05 / 3), (12, 0.05 / 3)):
        row = rejections(seeds, alpha)
        result["sign_flip"][f"{seeds} seeds at {alpha:.4f}"] = row
        print(f"sign-flip, {seeds:>2} seeds at {alpha:.4f}: ", ", ".join(f"{k} {v:.3f}" for k, v in row.items()))
    if asked.json:
        asked.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
