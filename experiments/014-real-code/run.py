"""Work off the plan on this machine, in slices: whatever is done stays done, the next call goes on.

    recompose experiment run experiments/014-real-code -- --tasks DIR --slice-s 540 --processes 2 --only 'start-*'

Reads plan.toml and the folders of tasks below --tasks, as pool.py makes them; writes results/<job>.jsonl.zst. What an
unfinished run needs to go on is in --work/state/<run>; a run whose state is gone begins anew.
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

from plan import HERE, Plan, read_plan

from composer_replication.training.backends.trl.checkpoints import latest


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plan", type=Path, default=HERE / "plan.toml")
    parser.add_argument("--tasks", type=Path, required=True, help="holds one folder of tasks per repository")
    parser.add_argument("--work", type=Path, default=Path("runs") / HERE.name)
    parser.add_argument("--results", type=Path, default=HERE / "results")
    parser.add_argument("--only", nargs="+", default=["*"], help="patterns of job names, as start-* or grpo-501@*")
    parser.add_argument("--slice-s", type=float, default=540.0)
    parser.add_argument("--processes", type=int, default=1)
    given = parser.parse_args()
    plan = read_plan(given.plan, given.results)
    begin_anew(plan, given.work)
    given.work.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, str(HERE / "work.py"), "--plan", str(given.plan), "--tasks", str(given.tasks),
               "--work", str(given.work), "--results", str(given.results),
               "--until", str(time.time() + given.slice_s), "--only", *given.only]  # fmt: skip
    logs = [(given.work / f"worker-{number}.log").open("a") for number in range(given.processes)]
    environment = {"OMP_NUM_THREADS": "2"} | dict(os.environ)
    workers = [subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=environment) for log in logs]
    codes = [worker.wait() for worker in workers]
    jobs = plan.jobs(given.only)
    left = [job.name for job in jobs if not job.result.exists()]
    print(
        f"{len(jobs) - len(left)} of {len(jobs)} jobs done, exit codes {codes}; next: {', '.join(left[:4]) or 'none'}"
    )
    if any(codes):
        print("\n".join(Path(log.name).read_text()[-1500:] for log, code in zip(logs, codes, strict=True) if code))
        sys.exit(1)


def state_of(work: Path, run: str) -> Path:
    """The training folder of a run; the watchdog wants this name."""
    return work / "state" / run / "training"


def begin_anew(plan: Plan, work: Path) -> None:
    """Segments of an unfinished run whose checkpoint is not here are set aside and counted as orphans."""
    for run in plan.runs():
        steps = plan.steps_of(run)
        done = [step for step in steps if plan.file(f"{run.name}@{step}").exists()]
        checkpoint = latest(state_of(work, run.name) / "scratch")
        reached = int(checkpoint.name.partition("-")[2]) if checkpoint else 0
        if not done or done[-1] == steps[-1] or reached >= done[-1]:
            continue
        (plan.results / "orphans").mkdir(exist_ok=True)
        for step in done:
            file = plan.file(f"{run.name}@{step}")
            file.rename(plan.results / "orphans" / f"{time.time():.0f}-{file.name}")


if __name__ == "__main__":
    main()
