"""Work off the plan on this machine, in slices: whatever is done stays done, the next call goes on.

    recompose experiment run experiments/004-ab -- --slice-s 540 --processes 6 --only 'main/*'

Reads plan.toml; writes results/<regime>/<arm>-<seed>.jsonl.zst. Weights go to --work and are not results: arms of one
seed must share one start. Where its weights are gone and an arm is missing, it is made again; arms that began from
other weights than the new ones are set aside in results/<regime>/orphans and run again.
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

from jobs import chosen, jobs_of
from plan import HERE, read_plan

from shared.queue import Job


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plan", type=Path, default=HERE / "plan.toml")
    parser.add_argument("--work", type=Path, default=Path("runs") / "004-ab")
    parser.add_argument("--results", type=Path, default=HERE / "results")
    parser.add_argument("--only", nargs="+", default=["*"], help="patterns of job names, as main/*-1")
    parser.add_argument("--slice-s", type=float, default=540.0)
    parser.add_argument("--processes", type=int, default=1)
    given = parser.parse_args()
    plan = read_plan(given.plan)
    jobs = chosen(jobs_of(plan, given.work, given.results), given.only)
    forget_lost_starts(jobs, given.work)
    until = time.time() + given.slice_s
    given.work.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, str(HERE / "work.py"), "--plan", str(given.plan), "--work", str(given.work),
               "--results", str(given.results), "--until", str(until), "--only", *given.only]  # fmt: skip
    logs = [(given.work / f"worker-{number}.log").open("a") for number in range(given.processes)]
    # cuBLAS repeats itself only with a workspace of fixed size.
    environment = {"OMP_NUM_THREADS": "2", "CUBLAS_WORKSPACE_CONFIG": ":4096:8"} | dict(os.environ)
    workers = [subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=environment) for log in logs]
    codes = [worker.wait() for worker in workers]
    left = [job.name for job in jobs if not job.result.exists()]
    print(
        f"{len(jobs) - len(left)} of {len(jobs)} jobs done, exit codes {codes}; next: {', '.join(left[:4]) or 'none'}"
    )
    if any(codes):
        print("\n".join(Path(log.name).read_text()[-1500:] for log, code in zip(logs, codes, strict=True) if code))
        sys.exit(1)


def forget_lost_starts(jobs: list[Job], work: Path) -> None:
    """What a missing job needs and whose files are gone from `work` counts as not done; see the module's docstring."""
    by_name, waiting = {job.name: job for job in jobs}, [job for job in jobs if not job.result.exists()]
    while waiting:
        for need in waiting.pop().needs:
            regime, _, name = need.partition("/")
            kind, _, seed = name.rpartition("-")
            files = work / regime / f"start-{seed}" / {"start": "model", "data": "data"}.get(kind, "")
            job = by_name[need]
            if kind in ("start", "data") and job.result.exists() and not files.exists():
                job.result.unlink()
                waiting.append(job)


if __name__ == "__main__":
    main()
