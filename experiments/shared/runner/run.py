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

from composer_replication.errors import RecomposeError
from shared.queue import Job

from .jobs import Experiment, chosen, experiments_in, kind_of, wanted
from .load import Load

LOOK_EVERY_S = 2.0


def alone(folder: Path, words: Sequence[str]) -> None:
    """One experiment."""
    parser = _parser()
    parser.add_argument("--plan", type=Path, default=folder / "plan.toml")
    parser.add_argument("--work", type=Path, default=Path("runs") / folder.name)
    parser.add_argument("--results", type=Path, default=folder / "results")
    given = parser.parse_args(words)
    work([Experiment(folder, given.plan, given.work, given.results, "")], given)


def together(words: Sequence[str]) -> None:
    """Experiments in one queue; --results has a folder for each, laid out as its own."""
    parser = _parser()
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--work", type=Path, default=Path("runs"))
    parser.add_argument("--results", type=Path)
    given = parser.parse_args(words)
    work(experiments_in(given.folders, given.work, given.results), given)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=["*"], help="patterns of job names, as main/*-1")
    parser.add_argument("--slice-s", type=float, default=540.0)
    parser.add_argument("--processes", type=int, default=1)
    return parser


def _made_ready(experiments: Sequence[Experiment], only: Sequence[str]) -> list[Job]:
    jobs = list[Job]()
    for experiment in experiments:
        own = chosen((kind := kind_of(experiment)).jobs_of(experiment), only)
        kind.make_ready(experiment, own)
        jobs += wanted(own)
    return jobs


def work(experiments: Sequence[Experiment], given: argparse.Namespace) -> None:
    try:
        jobs = _made_ready(experiments, given.only)
    except RecomposeError as error:
        sys.exit(str(error))
    left = [job for job in jobs if not job.result.exists()]
    if left and (soonest := min(left, key=lambda job: job.seconds)).seconds > given.slice_s:
        told = f"no job fits into {given.slice_s:g} s: {soonest.name} is to take {soonest.seconds:g} s"
        sys.exit(f"{told}; next: a longer slice, or fewer seconds in the plan")
    until, logs_at = time.time() + given.slice_s, experiments[0].work
    logs_at.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "shared.runner.work", "--until", str(until), "--only", *given.only]
    for experiment in experiments:
        command += ["--experiment", *map(str, experiment)]
    logs = [(logs_at / f"worker-{number}.log").open("a") for number in range(given.processes)]
    # cuBLAS repeats itself only with a workspace of fixed size.
    environment = {"OMP_NUM_THREADS": "2", "CUBLAS_WORKSPACE_CONFIG": ":4096:8"} | dict(os.environ)
    workers = [subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=environment) for log in logs]
    codes = exit_codes(workers, jobs, load := Load(logs_at / "load.jsonl"))
    left = [job.name for job in jobs if not job.result.exists()]
    print(
        f"{len(jobs) - len(left)} of {len(jobs)} jobs done, exit codes {codes}; next: {', '.join(left[:4]) or 'none'}"
    )
    if told := load.told():
        print(told)
    if any(codes):
        print("\n".join(Path(log.name).read_text()[-1500:] for log, code in zip(logs, codes, strict=True) if code))
        sys.exit(1)


def exit_codes(workers: Sequence[subprocess.Popen[bytes]], jobs: Sequence[Job], load: Load) -> list[int]:
    """Of all workers, once they have ended. Until then a line for each job whose result appears."""
    left = [job for job in jobs if not job.result.exists()]
    while True:
        codes = [worker.poll() for worker in workers]
        for job in [job for job in left if job.result.exists()]:
            left.remove(job)
            print(f"{len(jobs) - len(left)} of {len(jobs)} jobs done: {job.name}", flush=True)
        ended = [code for code in codes if code is not None]
        if len(ended) == len(workers):
            return ended
        load.look()
        time.sleep(LOOK_EVERY_S)


if __name__ == "__main__":
    together(sys.argv[1:])
