"""One process of the queue: measurements and segments of runs, until the slice is over."""

import argparse
import gc
import os
import sys
import time
import traceback
from pathlib import Path

import torch
from plan import BEFORE, MEMORY, START, read_plan
from run import state_of

from composer_replication.cli.common import quiet_libraries
from shared.queue import Job, Queue


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plan", type=Path, required=True)
    parser.add_argument("--tasks", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument("--only", nargs="+", required=True)
    parser.add_argument("--until", type=float, required=True, help="seconds since the epoch")
    given = parser.parse_args()
    quiet_libraries()
    from composer_replication.training.libraries import load_libraries

    load_libraries()
    import arm

    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "2")))
    sys.path.insert(0, str(given.plan.resolve().parent))  # of an environment that the plan brings along
    plan = read_plan(given.plan, given.results)
    tasks = sorted(folder.parent for folder in given.tasks.glob("*/manifest.json"))

    def do(job: Job) -> None:
        began = time.monotonic()
        if job.name.startswith(f"{START}-"):
            arm.measure_start(plan, tasks, int(job.name.partition("-")[2]), job.result)
        elif job.name in (BEFORE, MEMORY):
            {BEFORE: arm.measure_before, MEMORY: arm.measure_memory}[job.name](plan, tasks, job.result)
        else:
            run, step = plan.run_of(job.name)
            arm.run_segment(plan, run, step, tasks, state_of(given.work, run.name), job.result)
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        print(f"{job.name} {time.monotonic() - began:.1f} s", flush=True)

    try:
        Queue(plan.jobs(given.only), given.work / "claims").work(do, given.until, clock=time.time)
    except Exception:
        traceback.print_exc()
        sys.exit(1)


if __name__ == "__main__":
    main()
