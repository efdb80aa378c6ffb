"""One process of the queue: warm-ups, teachers, data, probes and arms, until the slice is over."""

import argparse
import gc
import os
import shutil
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from composer_replication.cli.common import quiet_libraries
from composer_replication.config import Config
from composer_replication.objective import SdpoSettings
from composer_replication.records import ERROR_KINDS
from shared.queue import Job, Queue
from shared.result_lines import SUFFIX, read_result

from .jobs import Experiment, chosen, kind_of, wanted
from .plan import FEWEST_SITES, read_plan
from .toolbox import task_of


class Worker:
    """Does the jobs of one experiment in the toolbox."""

    def __init__(self, experiment: Experiment) -> None:
        self._plan = read_plan(experiment.plan)
        self._work, self._results = experiment.work, experiment.results

    def do(self, job: Job) -> None:
        regime, kind, number = task_of(job)
        if kind == "teacher":
            self._teacher(regime, number)
        elif kind == "start":
            self._start(regime, int(number), job.result)
        elif kind == "data":
            self._data(regime, int(number), job.result)
        else:
            self._arm(regime, kind, int(number), job.result)

    def _teacher(self, regime: str, teacher: str) -> None:
        from .block import warmed_up

        folder = self._work / regime / f"teacher-{teacher}"
        with repeatable():
            warmed_up(self._plan.teacher_config(regime, teacher), folder / "model")
        (folder / "done").write_text("done\n")

    def _start(self, regime: str, seed: int, result: Path) -> None:
        from composer_replication.environments.toolbox.environment import open_toolbox
        from composer_replication.evaluation.probe import gaps, probe_hints
        from shared.result_lines import write_result

        from .arm import weights_hash
        from .block import warmed_up
        from .measure import Measure, outcomes, summary
        from .reminded import REMINDERS

        config, measuring = self._plan.start_config(regime, seed), self._plan.raw["measuring"]
        folder = self._work / regime / f"start-{seed}"
        with repeatable():
            policy = warmed_up(config, folder / "model")
        sha256 = weights_hash(folder / "model")
        set_aside_orphans(result.parent, seed, "start_sha256", sha256)
        lines = [{"line": "start", "regime": regime, "seed": seed, "start_sha256": sha256}]
        measured = ("heldout", measuring["part"], measuring["tasks"], measuring["samples"])
        found = Measure(config).episodes(policy, *measured)
        lines.append({"line": "final", "split": "heldout", **summary(found)})
        lines += [{"line": "task", "split": "heldout", **one} for one in outcomes(found)]
        for name in measuring.get("reminders", ()):
            found = Measure(config, config.hints.max_tokens).episodes(policy, *measured, REMINDERS[name])
            lines.append({"line": "reminded", "condition": name, **summary(found)})
            lines += [{"line": "reminded_task", "condition": name, **one} for one in outcomes(found)]
        with torch.autocast(policy.model.device.type, torch.bfloat16, enabled=policy.model.device.type == "cuda"):
            tried = probe_hints(
                policy, config, open_toolbox(config), measuring["probe_sites"], measuring["probe_tries"]
            )
        lines += [{"line": "tried", **one.model_dump()} for one in tried]
        lines += [{"line": "gap", **one.model_dump()} for one in gaps(tried)]
        write_result(result, lines)

    def _data(self, regime: str, seed: int, result: Path) -> None:
        from composer_replication.training.models.loading import load_saved_policy
        from shared.result_lines import write_result

        from .block import data_hash, make_data

        config, folder = self._plan.start_config(regime, seed), self._work / regime / f"start-{seed}"
        start, teachers = load_saved_policy(folder / "model", config.model.name), self._teachers(regime, seed)
        counts = make_data(start, teachers, config, folder / "data")
        sha256 = data_hash(folder / "data")
        set_aside_orphans(result.parent, seed, "data_sha256", sha256)
        write_result(result, [{"line": "data", "regime": regime, "seed": seed, "data_sha256": sha256, **counts}])

    def _arm(self, regime: str, arm: str, seed: int, result: Path) -> None:
        from .arm import Sources, run_arm

        start, scratch = self._work / regime / f"start-{seed}", self._work / "scratch" / f"{regime}-{arm}-{seed}"
        shutil.rmtree(scratch, ignore_errors=True)
        phases = self._plan.phases(regime, arm, seed)
        if self._plan.raw.get("gate", True):
            probed = self._results / regime / f"start-{seed}.jsonl.zst"
            phases = [phase._replace(config=with_kinds_off(phase.config, probed)) for phase in phases]
        teachers = self._teachers(regime, seed) if self._plan.asks_teachers(arm) else {}
        data = start / "data" if self._plan.reads_pairs(regime, arm) else None
        sources = Sources(start / "model", data, teachers)
        about = {"regime": regime, "arm": arm}
        run_arm(phases, sources, scratch, result, self._plan.raw["measuring"], about)
        shutil.rmtree(scratch, ignore_errors=True)

    def _teachers(self, regime: str, seed: int) -> dict[str, Path]:
        owner = self._work / self._plan.teachers_of(regime)
        return {f"checkpoint-{name}": owner / f"teacher-{name}" / "model" for name in self._plan.teachers(regime, seed)}


@contextmanager
def repeatable() -> Iterator[None]:
    """The same weights again on the same kind of device, so that a lost start can be made once more."""
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


def set_aside_orphans(folder: Path, seed: int, key: str, sha256: str) -> None:
    """Arms that began from another start or data of this seed cannot be compared with those to come; they are run
    again."""
    for path in folder.glob(f"*-{seed}{SUFFIX}"):
        first = next(iter(read_result(path)))
        if first["line"] == "run" and first.get(key, sha256) != sha256:
            (folder / "orphans").mkdir(exist_ok=True)
            path.rename(folder / "orphans" / path.name)


def with_kinds_off(config: Config, start: Path) -> Config:
    """Channel 2 leaves kinds alone whose gap the probe of this start found too small, or saw too seldom to tell."""
    if not config.channel(SdpoSettings).weight:
        return config
    useful = {
        line["kind"]
        for line in read_result(start)
        if line["line"] == "gap" and line["useful"] and line["sites"] >= FEWEST_SITES
    }
    off = tuple(kind for kind in ERROR_KINDS if kind not in useful)
    return config.with_channels(config.channel(SdpoSettings).model_copy(update={"kinds_off": off}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--experiment", nargs=5, action="append", required=True, metavar=Experiment._fields)
    parser.add_argument("--only", nargs="+", required=True)
    parser.add_argument("--until", type=float, required=True, help="seconds since the epoch")
    given = parser.parse_args()
    quiet_libraries()
    from composer_replication.training.libraries import load_libraries

    load_libraries("shared.runner.arm")
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "2")))
    experiments = [Experiment(*map(Path, paths), label) for *paths, label in given.experiment]
    jobs, workers = list[Job](), dict[str, Any]()
    for experiment in experiments:
        kind = kind_of(experiment)
        own, worker = chosen(kind.jobs_of(experiment), given.only), kind.worker(experiment)
        jobs += wanted(own)
        workers |= {job.name: worker for job in own}

    def do(job: Job) -> None:
        started = time.monotonic()
        try:
            workers[job.name].do(job)
        except Exception:
            traceback.print_exc()
            raise
        finally:
            gc.collect()
            if torch.cuda.is_available():
                torch.cuda.empty_cache()
        print(f"{job.name} {time.monotonic() - started:.1f} s", flush=True)

    queue = Queue(jobs, experiments[0].work / "claims")
    try:
        queue.work(do, given.until, clock=time.time)
    except RuntimeError as error:
        sys.exit(f"failed: {error}")


if __name__ == "__main__":
    main()
