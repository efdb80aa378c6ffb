"""One process of the queue: starts and arms, until the slice is over."""

import argparse
import os
import shutil
import sys
import time
import traceback
from pathlib import Path

import torch
from plan import START, read_plan

from composer_replication.cli.common import quiet_libraries
from shared.queue import Job, Queue


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plan", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument("--only", nargs="+", required=True)
    parser.add_argument("--until", type=float, required=True, help="seconds since the epoch")
    given = parser.parse_args()
    quiet_libraries()
    from composer_replication.training.libraries import load_libraries

    load_libraries()
    from arm import run_arm, run_start
    from measure import Measure

    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "2")))
    plan = read_plan(given.plan)
    measure = Measure(plan.config(START, 0), plan.measuring)

    def do(job: Job) -> None:
        began = time.monotonic()
        arm, _, number = job.name.rpartition("-")
        config, weights = plan.config(arm, int(number)), given.work / f"{START}-{number}"
        if arm == START:
            run_start(config, weights, job.result, measure)
        else:
            scratch = given.work / "scratch" / job.name
            shutil.rmtree(scratch, ignore_errors=True)
            run_arm(config, arm, weights, scratch, job.result, measure)
            shutil.rmtree(scratch, ignore_errors=True)
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        print(f"{job.name} {time.monotonic() - began:.1f} s", flush=True)

    try:
        Queue(plan.jobs(given.results, given.only), given.work / "claims").work(do, given.until, clock=time.time)
    except Exception:
        traceback.print_exc()
        sys.exit(1)


if __name__ == "__main__":
    main()
