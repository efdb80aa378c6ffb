"""Certify candidates in several processes, each with its own warm test processes, in the order in which they finish."""

from __future__ import annotations

import multiprocessing
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, NamedTuple

from composer_replication.errors import RecomposeError

from ..certificates.certify import Verdict, certify
from ..certificates.cpu_time import adopt_orphans
from ..certificates.gates import Bench
from ..running.warm import RunnerEnded, TestSetup
from ..tasks.repository import CoverageMap, Repository
from ..tasks.task import Candidate, Level, Rejection


@dataclass(frozen=True)
class Job:
    """All that a worker needs besides the candidates."""

    repository: Repository
    coverage: CoverageMap
    setup: TestSetup
    into: Path
    level: Level
    seed: int


TOLD_EVERY_S = 5.0


class UnderWay(NamedTuple):
    """A candidate that a worker is at, what it does with it, and since when."""

    candidate: Candidate
    gate: str
    began: float


def certify_all(
    job: Job,
    candidates: Iterable[Candidate],
    processes: int,
    tell: Callable[[str], None],
    stopping: Callable[[KeyboardInterrupt], None],
) -> Iterator[tuple[Candidate, Verdict]]:
    """Candidates are taken from the iterator as workers get free. `tell` hears every few seconds what the worker that
    has been at its candidate for longest does; `stopping` hears of an interrupt before the sandboxes end."""
    context = multiprocessing.get_context("spawn")
    waiting = iter(candidates)
    workers: dict[Connection[Any, Any], tuple[Any, UnderWay | None]] = {}
    try:
        for _ in range(processes):
            here, there = context.Pipe()
            process = context.Process(target=_work, args=(there, job), daemon=True)
            process.start()
            there.close()
            workers[here] = (process, _give(here, waiting))
        while busy := {here: at for here, (_, at) in workers.items() if at is not None}:
            ready = set(wait(list(busy), TOLD_EVERY_S))
            longest = min(busy.values(), key=lambda at: at.began)
            tell(f"{longest.candidate.name}: {longest.gate}, {time.monotonic() - longest.began:.0f} s")
            for here in [here for here in busy if here in ready]:
                process, at = workers[here][0], busy[here]
                try:
                    answer = here.recv()
                except EOFError as error:
                    raise RecomposeError("a worker process died", "run the same command again: it goes on") from error
                if isinstance(answer, str):
                    workers[here] = (process, at._replace(gate=answer))
                    continue
                workers[here] = (process, None)
                if isinstance(answer, RecomposeError):
                    raise answer
                workers[here] = (process, _give(here, waiting))
                yield at.candidate, answer
    except KeyboardInterrupt as interrupt:
        stopping(interrupt)
        raise
    finally:
        for here, (process, at) in workers.items():
            here.close()
            # Nobody would read its verdict.
            if at:
                process.terminate()
        for process, _ in workers.values():
            process.join(timeout=5)
            if process.is_alive():
                process.terminate()
                process.join(timeout=10)


def _give(worker: Connection[Any, Any], candidates: Iterator[Candidate]) -> UnderWay | None:
    candidate = next(candidates, None)
    worker.send(candidate)
    return candidate and UnderWay(candidate, "begins", time.monotonic())


def _work(parent: Connection[Any, Any], job: Job) -> None:
    """Until the parent has no more candidates, or is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(143))
    adopt_orphans()
    with closing(Bench(job.repository, job.coverage, job.setup, owns_process=True)) as bench:
        try:
            while (candidate := parent.recv()) is not None:
                parent.send(_verdict(candidate, bench, job, parent.send))
        except RecomposeError as error:
            parent.send(RecomposeError(str(error.args[0]), error.next_command))
        except (EOFError, BrokenPipeError):
            return


def _verdict(candidate: Candidate, bench: Bench, job: Job, tell: Callable[[str], None]) -> Verdict:
    """A fault of ours costs one candidate, and its reason says so."""
    try:
        return certify(candidate, bench, job.into, job.level, job.seed, tell)
    except RunnerEnded as error:
        return Verdict(Rejection(candidate.name, "runner_ended", str(error.args[0])[-500:]), 0.0, 0.0, 0.0)
    except RecomposeError:
        raise
    except Exception:
        detail = traceback.format_exc(limit=-2)[-500:]
        return Verdict(Rejection(candidate.name, "internal_error", detail), 0.0, 0.0, 0.0)
