"""Every table and figure of the plan from the raw files. Needs no GPU and trains nothing.

    recompose experiment rebuild experiments/009-rates

Reads plan.toml and results/low-strong; writes results/tables.json, results/tables.md and figures/*.svg. While a run of
the plan is missing it writes nothing, says how many are, and ends with exit code 1. With --interim it takes the seeds
that are whole: differences with their intervals, and no tests.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from described import describe
from drawn import figures
from hypotheses import Tested, registered
from tabled import page
from trained import read_results

from composer_replication.errors import RecomposeError
from composer_replication.evaluation.stats import Estimate
from composer_replication.runs import write_atomically

HERE = Path(__file__).parent
UNTESTED = ("sides", "step", "by_seed", "interval", "two_way")
"""What an interim look tells of a difference."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plan", type=Path, default=HERE / "plan.toml")
    parser.add_argument("--results", type=Path, default=HERE / "results")
    parser.add_argument("--figures", type=Path, default=HERE / "figures")
    parser.add_argument("--interim", action="store_true", help="what the whole seeds show so far, without any test")
    given = parser.parse_args()
    try:
        results = read_results(given.plan, given.results, interim=given.interim)
    except RecomposeError as error:
        sys.exit(str(error))
    tested, described = registered(results), describe(results)
    shown = page(tested, described, interim=given.interim)
    tables = {
        "interim": given.interim,
        "registered": [without_tests(one) if given.interim else as_table(one) for one in tested],
        **described,
    }
    write_atomically(given.results / "tables.json", json.dumps(tables, indent=1, default=plain) + "\n")
    write_atomically(given.results / "tables.md", shown)
    given.figures.mkdir(exist_ok=True)
    for name, picture in figures(results).items():
        write_atomically(given.figures / f"{name}.svg", picture)
    print(shown)


def as_table(one: Tested) -> dict[str, Any]:
    return {**one._asdict(), "difference": one.difference._asdict()}


def without_tests(one: Tested) -> dict[str, Any]:
    return {"name": one.name, "difference": {key: getattr(one.difference, key) for key in UNTESTED}}


def plain(value: object) -> object:
    if isinstance(value, Estimate):
        return value.model_dump(exclude={"schema_version"})
    raise TypeError(f"{type(value).__name__} in the tables")


if __name__ == "__main__":
    main()
