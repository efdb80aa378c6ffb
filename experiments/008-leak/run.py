"""Work off the plan on this machine, in slices: whatever is done stays done, the next call goes on.

    recompose experiment run experiments/008-leak -- --slice-s 300 --processes 6 --only 'open-*'

Reads plan.toml; writes results/smollm2/<arm>-<seed>.jsonl.zst. Starting weights go to --work and are not results:
arms of one seed must share one start, so keep that folder until every arm of its seeds is done.
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

from plan import HERE, START, Plan, read_plan

from shared.result_lines import SUFFIX


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plan", type=Path, default=HERE / "plan.toml")
    parser.add_argument("--work", type=Path, default=Path("runs") / "008-leak")
    parser.add_argument("--results", type=Path, default=HERE / "results" / "smollm2")
    parser.add_argument("--only", nargs="+", default=["*"], help="patterns of job names, as open-*")
    parser.add_argument("--slice-s", type=float, default=540.0)
    parser.add_argument("--processes", type=int, default=1)
    given = parser.parse_args()
    plan = read_plan(given.plan)
    forget_lost_starts(plan, given.work, given.results)
    until = time.time() + given.slice_s
    given.work.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, str(HERE / "work.py"), "--plan", str(given.plan), "--work", str(given.work),
               "--results", str(given.results), "--until", str(until), "--only", *given.only]  # fmt: skip
    logs = [(given.work / f"worker-{number}.log").open("a") for number in range(given.processes)]
    environment = {"OMP_NUM_THREADS": "2"} | dict(os.environ)
    workers = [subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=environment) for log in logs]
    codes = [worker.wait() for worker in workers]
    jobs = plan.jobs(given.results, given.only)
    left = [job.name for job in jobs if not job.result.exists()]
    print(
        f"{len(jobs) - len(left)} of {len(jobs)} jobs done, exit codes {codes}; next: {', '.join(left[:4]) or 'none'}"
    )
    if any(codes):
        print("\n".join(Path(log.name).read_text()[-1500:] for log, code in zip(logs, codes, strict=True) if code))
        sys.exit(1)


def forget_lost_starts(plan: Plan, work: Path, results: Path) -> None:
    """A start whose weights are gone is made anew as long as no arm has used it."""
    for seed in plan.raw["seeds"]:
        start = results / f"{START}-{seed}{SUFFIX}"
        used = any((results / f"{arm}-{seed}{SUFFIX}").exists() for arm in plan.arms)
        if start.exists() and not used and not (work / f"{START}-{seed}").exists():
            start.unlink()


if __name__ == "__main__":
    main()
