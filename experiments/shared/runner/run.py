"""Work off the plans of one or several experiments on this machine, in slices: whatever is done stays done.

    recompose experiment run experiments/004-ab -- --slice-s 540 --processes 6 --only 'main/*'
    python -m shared.runner.run experiments/011-content experiments/012-competitors --processes 6

Reads plan.toml of each folder; writes results/<regime>/<arm>-<seed>.jsonl.zst. Several experiments share one queue, in
the order given; the names of their jobs then begin with the folder's. Weights go to --work and are not results: arms of
one seed must share one start. Where its weights are gone and an arm is missing, it is made again; arms that began from
other weights than the new ones are set aside in results/<regime>/orphans and run again.
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from shared.queue import Job

from .jobs import Experiment, chosen, jobs_of, task_of, wanted

LOST_WITH = {"start": "model", "data": "data"}
"""What a job leaves in its seed's folder of `work`."""


def main(words: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--plan", type=Path, help="of a single experiment, in place of its plan.toml")
    parser.add_argument("--work", type=Path, help="runs/NAME; of several experiments a folder for theirs")
    parser.add_argument("--results", type=Path, help="FOLDER/results; of several experiments a copy of their folders")
    parser.add_argument("--only", nargs="+", default=["*"], help="patterns of job names, as main/*-1")
    parser.add_argument("--slice-s", type=float, default=540.0)
    parser.add_argument("--processes", type=int, default=1)
    given = parser.parse_args(words)
    if given.plan and len(given.folders) > 1:
        parser.error("--plan is for one experiment")
    if len(given.folders) == 1:
        experiments = [_alone(given.folders[0].resolve(), given)]
    else:
        experiments = [_one_of_several(folder.resolve(), given) for folder in given.folders]
    work(experiments, given.only, given.slice_s, given.processes)


def _alone(folder: Path, given: argparse.Namespace) -> Experiment:
    runs, results = given.work or Path("runs") / folder.name, given.results or folder / "results"
    return Experiment(folder, given.plan or folder / "plan.toml", runs, results, "")


def _one_of_several(folder: Path, given: argparse.Namespace) -> Experiment:
    results = given.results / folder.name if given.results else folder
    runs = (given.work or Path("runs")) / folder.name
    return Experiment(folder, folder / "plan.toml", runs, results / "results", folder.name)


def work(experiments: Sequence[Experiment], only: Sequence[str], slice_s: float, processes: int) -> None:
    jobs = chosen([job for experiment in experiments for job in jobs_of(experiment)], only)
    forget_lost_starts(jobs, {experiment.label: experiment.work for experiment in experiments})
    jobs = wanted(jobs)
    until, logs_at = time.time() + slice_s, experiments[0].work
    logs_at.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "shared.runner.work", "--until", str(until), "--only", *only]
    for experiment in experiments:
        command += ["--experiment", *map(str, experiment)]
    logs = [(logs_at / f"worker-{number}.log").open("a") for number in range(processes)]
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


def forget_lost_starts(jobs: list[Job], work_of: dict[str, Path]) -> None:
    """What a missing job needs and whose files are gone from `work` counts as not done; see the module's docstring."""
    by_name, waiting = {job.name: job for job in jobs}, [job for job in jobs if not job.result.exists()]
    while waiting:
        for need in waiting.pop().needs:
            job, task = by_name[need], task_of(by_name[need])
            files = work_of[task.experiment] / task.regime / f"start-{task.number}" / LOST_WITH.get(task.kind, "")
            if task.kind in LOST_WITH and job.result.exists() and not files.exists():
                job.result.unlink()
                waiting.append(job)


if __name__ == "__main__":
    main(sys.argv[1:])
