"""Channel 2 alone on stored traces of the tiny policy, with three teachers and three lengths.

    recompose experiment run experiments/017-stored-teacher                # about 40 minutes on two cores
    recompose experiment run experiments/017-stored-teacher -- --seeds 1 2

Writes results/seed-<seed>.json: the share of held-out tasks that were solved at the start and after each training, and
which. A seed that is there is kept.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from composer_replication.evaluation.compare import TaskOutcome
from composer_replication.runs import Run, write_atomically

RESULTS = Path(__file__).parent / "results"
SEEDS, TEACHERS, LENGTHS = range(1, 9), ("live", "ema", "frozen"), (8, 20, 60)
STORED_ALONE = ["training.rollouts=false", 'evaluation.splits=["heldout"]']


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS))
    RESULTS.mkdir(exist_ok=True)
    with ThreadPoolExecutor(os.cpu_count()) as cores:
        for _ in cores.map(run_seed, parser.parse_args().seeds):
            pass


def run_seed(seed: int) -> None:
    result = RESULTS / f"seed-{seed}.json"
    if result.exists():
        return
    folder = Path(tempfile.mkdtemp())
    try:
        base = stored_traces(folder, seed)
        found = {
            f"{teacher}-{steps}": measured(trained(base, folder / f"{teacher}-{steps}", teacher, steps))
            for teacher in TEACHERS
            for steps in LENGTHS
        }
    finally:
        shutil.rmtree(folder)
    start = next(iter(found.values()))["before"]
    solved = {"start": start, **{name: one["after"] for name, one in found.items()}}
    write_atomically(result, json.dumps({"seed": seed, "solved": solved}) + "\n")
    print(f"seed {seed}: " + ", ".join(f"{name} {sum(tasks) / len(tasks):.3f}" for name, tasks in solved.items()))


def stored_traces(folder: Path, seed: int) -> Path:
    base, settings = folder / "base", folder / "settings.toml"
    settings.write_text(f"seed = {seed}\n[ingestion]\nrollouts = 192\n")
    recompose("ingest", "--run", base, "--config", settings)
    for verb in ("sites", "hint"):
        recompose(verb, base)
    return base


def trained(base: Path, run: Path, teacher: str, steps: int) -> Path:
    channel = f'channels=[{{name="sdpo",weight=1.0,teacher="{teacher}"}}]'
    changes = [*STORED_ALONE, f"training.steps={steps}", channel]
    recompose("fork", base, run, *(word for change in changes for word in ("--set", change)))
    recompose("train", run)
    return run


def measured(run: Path) -> dict[str, list[int]]:
    """By phase: 1 for each held-out task that was solved."""
    recompose("evaluate", run)
    outcomes = Run.open(run).stage("evaluation").read(TaskOutcome)
    return {phase: [int(one.reward == 1) for one in outcomes if one.phase == phase] for phase in ("before", "after")}


def recompose(*words: str | Path) -> None:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "composer_replication", *map(str, words)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, words))}: {done.stderr.strip()}")


if __name__ == "__main__":
    main()
