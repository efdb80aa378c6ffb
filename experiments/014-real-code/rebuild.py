"""Every table of the plan from the raw files. Needs no GPU and trains nothing.

    recompose experiment rebuild experiments/014-real-code

Reads plan.toml and results; writes results/tables.json and results/tables.md. While a job of the plan is missing it
writes nothing, says how many are, and ends with exit code 1.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from registered import Results, Tested, described, read_results, registered

from composer_replication.errors import RecomposeError
from composer_replication.evaluation.stats import Estimate
from composer_replication.runs import write_atomically
from shared.code_runs.plan import read_plan

HERE = Path(__file__).parent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plan", type=Path, default=HERE / "plan.toml")
    parser.add_argument("--results", type=Path, default=HERE / "results")
    given = parser.parse_args()
    try:
        results = read_results(read_plan(given.plan, given.results))
    except RecomposeError as error:
        sys.exit(str(error))
    tested = registered(results)
    tables = {
        "tests": [plain(test._asdict()) for test in tested],
        "passes": plain(described(results)),
        "curves": plain(results.curves),
        "means_over_steps": results.runs,
        "rates": results.rates,
        "open_tasks": len(results.open_tasks),
        "test_tasks": len(results.tasks),
        "remembered_tasks": sum(task in results.remembered for task in results.tasks),
        "orphans": results.orphans,
    }
    write_atomically(given.results / "tables.json", json.dumps(tables, indent=1) + "\n")
    write_atomically(given.results / "tables.md", page(results, tested))
    print(f"{given.results / 'tables.md'}: {len(results.open_tasks)} open test tasks of {len(results.tasks)}")


def plain(value: Any) -> Any:
    if isinstance(value, Estimate):
        return value.model_dump(include={"mean", "lo", "hi", "n"})
    return {key: plain(own) for key, own in value.items()} if isinstance(value, dict) else value


def page(results: Results, tested: list[Tested]) -> str:
    parts = [
        "# 014: results, made by rebuild.py\n",
        f"{len(results.open_tasks)} open tasks of {len(results.tasks)} test tasks; "
        f"{sum(task in results.remembered for task in results.tasks)} of them are remembered. "
        f"Rates: {', '.join(f'{arm} {rate:g}' for arm, rate in results.rates.items())}. "
        f"Runs begun anew: {results.orphans} files.\n",
        "| | difference in pass@1 | over seeds and tasks | p over repositories | p, Holm | detectable | holds |",
        "|---|---|---|---|---|---|---|",
        *(
            f"| {test.name} | {test.sides} | {shown(test.two_way, sign=True)} | {test.p:.4f} | {test.p_holm:.4f} "
            f"| {test.detectable:.3f} | {'yes' if test.holds else 'no'} |"
            for test in tested
        ),
        "",
    ]
    steps = list(next(iter(results.curves.values())))
    parts += [
        "## On the way: pass@1\n",
        f"| | {' | '.join(f'step {step}' for step in steps)} |",
        "|---" * (len(steps) + 1) + "|",
    ]
    parts += [f"| {arm} | {' | '.join(shown(own[step]) for step in steps)} |" for arm, own in results.curves.items()]
    parts.append("")
    for group, everyone in described(results).items():
        parts += [f"## {group}\n", "| | pass@1 | pass@8 |", "|---|---|---|"]
        parts += [f"| {who} | {shown(found['pass@1'])} | {shown(found['pass@8'])} |" for who, found in everyone.items()]
        parts.append("")
    return "\n".join(parts)


def shown(estimate: Estimate, sign: bool = False) -> str:
    mean = f"{estimate.mean:+.3f}" if sign else f"{estimate.mean:.3f}"
    return f"{mean} [{estimate.lo:.3f}, {estimate.hi:.3f}]"


if __name__ == "__main__":
    main()
