"""Five seeds of the quickstart: per-seed results and per-task outcomes, then one table.

make experiment-000        about 20 minutes on two cores; finished seeds are kept
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
RESULTS = HERE / "results"
RUNS = Path("runs") / "000-quickstart"
SEEDS = range(5)


def run_seed(seed: int) -> None:
    run = RUNS / f"seed-{seed}"
    command = [sys.executable, "-m", "composer_replication", "quickstart", "--seed", str(seed), "--run", str(run)]
    done = subprocess.run([*command, "--json"], stdout=subprocess.PIPE, text=True, check=True)
    result = json.loads(done.stdout)
    for machine_dependent in ("run", "report"):
        del result[machine_dependent]
    RESULTS.mkdir(exist_ok=True)
    shutil.copy(run / "evaluation" / "records.jsonl.zst", RESULTS / f"seed-{seed}.outcomes.jsonl.zst")
    shutil.copy(run / "training" / "records.jsonl.zst", RESULTS / f"seed-{seed}.steps.jsonl.zst")
    (RESULTS / f"seed-{seed}.json").write_text(json.dumps(result, indent=2) + "\n")


def table() -> str:
    lines = [
        "| seed | split | before | after | difference, 95 % interval | tasks | seconds |",
        "|---|---|---|---|---|---|---|",
    ]
    for seed in SEEDS:
        result = json.loads((RESULTS / f"seed-{seed}.json").read_text())
        headline = {name: result[f"success_{name}"] for name in ("before", "after")}
        splits = {result["split"]: {**headline, "difference": result["difference"]}, **result["other_splits"]}
        for split, row in splits.items():
            change = row["difference"]
            lines.append(
                f"| {seed} | {split} | {row['before']['mean']:.3f} | {row['after']['mean']:.3f} "
                f"| {change['mean']:+.3f} [{change['lo']:+.3f}, {change['hi']:+.3f}] | {change['n']} "
                f"| {result['seconds']:.0f} |"
            )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    for seed in SEEDS:
        if not (RESULTS / f"seed-{seed}.json").exists():
            run_seed(seed)
    (RESULTS / "table.md").write_text(table())
    print(table())
