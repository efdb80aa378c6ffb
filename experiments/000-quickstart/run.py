"""Five seeds of the quickstart: per-seed results and per-task outcomes, then one table.

make experiment-000        about 20 minutes on two cores; runs that are finished are kept
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
        "| seed | unseen tasks, before → after | unseen tool names | unseen tool sequences | seconds |",
        "|---|---|---|---|---|",
    ]
    for seed in SEEDS:
        result = json.loads((RESULTS / f"seed-{seed}.json").read_text())
        before, after = (result[f"success_{phase}"]["mean"] for phase in ("before", "after"))
        others = [interval(result["other_splits"][split]["difference"]) for split in ("renames", "compositions")]
        headline = f"{before:.3f} → {after:.3f}, **{interval(result['difference'])}**"
        lines.append(f"| {seed} | {headline} | {others[0]} | {others[1]} | {result['seconds']:.0f} |")
    return "\n".join(lines) + "\n"


def interval(change: dict[str, float | None]) -> str:
    if change["lo"] is None:
        return "all alike"
    return f"{change['mean']:+.3f} [{change['lo']:+.3f}, {change['hi']:+.3f}]"


if __name__ == "__main__":
    for seed in SEEDS:
        run_seed(seed)
    (RESULTS / "table.md").write_text(table())
    print(table())
