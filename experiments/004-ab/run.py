"""Work off the plan on this machine, in slices: whatever is done stays done, the next call goes on.

    recompose experiment run experiments/004-ab -- --slice-s 540 --processes 6 --only 'main/*'

Reads plan.toml; writes results/<regime>/<arm>-<seed>.jsonl.zst. Weights go to --work and are not results: arms of one
seed must share one start, so keep that folder until every arm of its seeds is done (a start is made again, and its arms
with it, where the weights are gone).
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

from plan import HERE, read_plan
from work import chosen, jobs_of


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
    forget_lost_starts(given.work, given.results, plan.regimes)
    until = time.time() + given.slice_s
    given.work.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, str(HERE / "work.py"), "--plan", str(given.plan), "--work", str(given.work),
               "--results", str(given.results), "--until", str(until), "--only", *given.only]  # fmt: skip
    logs = [(given.work / f"worker-{number}.log").open("a") for number in range(given.processes)]
    environment = {"OMP_NUM_THREADS": "2"} | dict(os.environ)
    workers = [subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=environment) for log in logs]
    codes = [worker.wait() for worker in workers]
    left = [job.name for job in jobs if not job.result.exists()]
    print(
        f"{len(jobs) - len(left)} of {len(jobs)} jobs done, exit codes {codes}; next: {', '.join(left[:4]) or 'none'}"
    )
    if any(codes):
        print("\n".join(Path(log.name).read_text()[-1500:] for log, code in zip(logs, codes, strict=True) if code))
        sys.exit(1)


def forget_lost_starts(work: Path, results: Path, regimes: list[str]) -> None:
    """A start whose weights are gone is made anew while arms of its seed are missing; see the module's docstring."""
    for regime in regimes:
        for start in (results / regime).glob("start-*.jsonl.zst"):
            seed = start.name.removeprefix("start-").removesuffix(".jsonl.zst")
            others = [path for path in (results / regime).glob(f"*-{seed}.jsonl.zst") if path != start]
            if not others and not (work / regime / f"start-{seed}" / "model").exists():
                start.unlink()


if __name__ == "__main__":
    main()
