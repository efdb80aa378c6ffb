"""Does the calibration of votes tell the truth? SIMULATED teachers of known error rates, no model, no network.

    python benchmarks/vote_calibration.py [--json benchmarks/results/vote_calibration.json]

Four families with error rates 0.15 to 0.22 (scaled per kind of state), whose errors are correlated by 0, 0.3 or 0.6: at
some states a family follows a draw that all share, and then errs with the same wrong answer. 200 replications of 1,200
judged states each. Prints, per correlation, how often the interval of a cell covers the cell's
true precision (from 2,000,000 states), and which of two rules drops the cells that are truly under the bar.
Takes 25 seconds of one core.
"""

from __future__ import annotations

import argparse
import json
import math
from collections import defaultdict
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from composer_replication.pairs.calibrate import (
    BAR,
    LEVEL,
    Calibration,
    CellKey,
    beta_quantile,
    calibrate_cells,
    clopper_pearson,
)

ERROR_RATES = (0.15, 0.18, 0.2, 0.22)
KINDS = {"json_decode": 0.5, "type_error": 1.0, "runtime_error": 1.7, "silent_failure": 2.8}
"""How much harder than usual the teachers find a kind."""
CORRELATIONS = (0.0, 0.3, 0.6)
WRONG_ANSWERS = 6
ABSTAIN_RATE = 0.15
REPLICATIONS = 200
STATES = 1_200
TRUTH_STATES = 2_000_000
TABLES = (
    "worst_coverage", "mean_coverage", "kept_under_the_bar", "worst_kept_under_the_bar", "kept_above_the_bar",
)  # fmt: skip
Interval = Callable[[int, int], tuple[float, float]]


def answers(rng: np.random.Generator, states: int, correlation: float) -> tuple[NDArray[np.int8], NDArray[np.int8]]:
    """Kinds, and what each family says: 0 is right, 1 and up are wrong answers, −1 is no valid reply."""
    families = len(ERROR_RATES)
    kinds = rng.integers(0, len(KINDS), states).astype(np.int8)
    rates = np.outer(np.array(list(KINDS.values()))[kinds], ERROR_RATES)
    follows = (
        rng.random((states, families)) < np.array([follow_share(s, correlation) for s in KINDS.values()])[kinds, None]
    )
    shared, shared_answer = rng.random((states, 1)), rng.integers(1, WRONG_ANSWERS + 1, (states, 1))
    errs = np.where(follows, shared, rng.random((states, families))) < rates
    wrong = np.where(follows, shared_answer, rng.integers(1, WRONG_ANSWERS + 1, (states, families)))
    said = np.where(errs, wrong, 0)
    said[rng.random((states, families)) < ABSTAIN_RATE] = -1
    return kinds, said.astype(np.int8)


def follow_share(scale: float, correlation: float) -> float:
    """How often a family must follow the shared draw for errors of two families to be correlated this much on average.

    Two that follow are correlated as much as their rates allow, which is less than 1 where the rates differ.
    """
    rates = [rate * scale for rate in ERROR_RATES]
    limits = [math.sqrt(a * (1 - b) / (b * (1 - a))) for i, b in enumerate(rates) for a in rates[:i]]
    return math.sqrt(correlation * len(limits) / sum(limits))


def error_correlation(correlation: float, states: int) -> float:
    """As measured: mean over pairs of families and over kinds."""
    kinds, said = answers(np.random.default_rng(7), states, correlation)
    families, found = range(len(ERROR_RATES)), list[float]()
    for kind in range(len(KINDS)):
        rows = said[(kinds == kind) & (said >= 0).all(1)] > 0
        table = np.corrcoef(rows.T)
        found += [float(table[i, j]) for i in families for j in families if i < j]
    return round(sum(found) / len(found), 3)


def elections(said: NDArray[np.int8]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
    """The rule of `pairs.vote` for many states at once: votes of the winner or 0, n, and whether it is right."""
    counts = np.stack([(said == answer).sum(1) for answer in range(WRONG_ANSWERS + 1)], axis=1)
    n, votes, winner = counts.sum(1), counts.max(1), counts.argmax(1)
    agreed = (n >= 2) & (3 * votes >= 2 * n)
    return np.where(agreed, votes, 0), n, winner == 0


def cells(rng: np.random.Generator, states: int, correlation: float) -> Calibration:
    kinds, said = answers(rng, states, correlation)
    votes, n, right = elections(said)
    names = list(KINDS)
    rows = zip(kinds.tolist(), votes.tolist(), n.tolist(), right.tolist(), strict=True)
    return calibrate_cells((CellKey(v, m, names[k]), r) for k, v, m, r in rows if v)


def wilson(successes: int, n: int) -> tuple[float, float]:
    z = NormalDist().inv_cdf((1 + LEVEL) / 2)
    centre = successes / n + z * z / (2 * n)
    half = z * math.sqrt(successes * (n - successes) / n**3 + z * z / (4 * n * n))
    return (centre - half) / (1 + z * z / n), (centre + half) / (1 + z * z / n)


def jeffreys(successes: int, n: int) -> tuple[float, float]:
    a, b, tail = successes + 0.5, n - successes + 0.5, (1 - LEVEL) / 2
    return (beta_quantile(tail, a, b) if successes else 0.0), (beta_quantile(1 - tail, a, b) if successes < n else 1.0)


INTERVALS: dict[str, Interval] = {"clopper_pearson": clopper_pearson, "jeffreys": jeffreys, "wilson": wilson}


def true_cells(correlation: float, states: int) -> dict[CellKey, float]:
    found = cells(np.random.default_rng(10_000 + round(correlation * 10)), states, correlation).cells
    return {CellKey(cell.votes, cell.n, cell.kind): cell.mean for cell in found if cell.total >= states / 1_000}


def measure(correlation: float, replications: int, states: int, truth_states: int) -> dict[str, Any]:
    truth = true_cells(correlation, truth_states)
    covered = {name: defaultdict[CellKey, list[bool]](list) for name in INTERVALS}
    kept = {rule: defaultdict[CellKey, list[bool]](list) for rule in ("lower_bound", "point_estimate")}
    for replication in range(replications):
        rng = np.random.default_rng([replication, round(correlation * 10)])
        calibration = cells(rng, states, correlation)
        for cell in calibration.cells:
            key = CellKey(cell.votes, cell.n, cell.kind)
            if key not in truth:
                continue
            for name, interval in INTERVALS.items():
                lo, hi = interval(cell.right, cell.total)
                covered[name][key].append(lo <= truth[key] <= hi)
            kept["lower_bound"][key].append(calibration.keeps(cell))
            kept["point_estimate"][key].append(cell.mean >= BAR)
    under = [key for key, precision in truth.items() if precision < BAR]
    above = [key for key in truth if key not in under]

    def share(rule: str, keys: list[CellKey]) -> float | None:
        flags = [flag for key in keys for flag in kept[rule][key]]
        return round(sum(flags) / len(flags), 4) if flags else None

    return {
        "correlation": correlation,
        "replications": replications,
        "states_per_replication": states,
        "cells": [
            {
                "votes": key.votes, "n": key.n, "kind": key.kind, "true_precision": round(precision, 4),
                "coverage": {name: _mean(covered[name][key]) for name in INTERVALS},
                "kept": {rule: _mean(kept[rule][key]) for rule in kept},
            }
            for key, precision in sorted(truth.items(), key=lambda item: item[1])
        ],
        "worst_coverage": {name: min(_mean(flags) for flags in covered[name].values()) for name in INTERVALS},
        "mean_coverage": {name: _mean(list(chain(*covered[name].values()))) for name in INTERVALS},
        "kept_under_the_bar": {rule: share(rule, under) for rule in kept},
        "kept_above_the_bar": {rule: share(rule, above) for rule in kept},
        "worst_kept_under_the_bar": {
            rule: max((_mean(kept[rule][key]) for key in under), default=None) for rule in kept
        },
        "cells_under_the_bar": len(under),
        "measured_correlation": error_correlation(correlation, truth_states // 10),
    }  # fmt: skip


def _mean(flags: list[bool]) -> float:
    return round(sum(flags) / len(flags), 4)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--replications", type=int, default=REPLICATIONS)
    arguments = parser.parse_args()
    results = [measure(rho, arguments.replications, STATES, TRUTH_STATES) for rho in CORRELATIONS]
    print(f"simulated teachers, {arguments.replications} replications of {STATES} states, bar {BAR}, level {LEVEL}")
    for result in results:
        cells_found, under = len(result["cells"]), result["cells_under_the_bar"]
        print(f"\ncorrelation {result['correlation']} (measured {result['measured_correlation']}):", end=" ")
        print(f"{cells_found} cells, {under} of them truly under the bar")
        for name in TABLES:
            print(f"  {name:25}", "  ".join(f"{key} {value}" for key, value in result[name].items()))
    if arguments.json:
        report = {"simulated": True, "bar": BAR, "level": LEVEL, "results": results}
        arguments.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
