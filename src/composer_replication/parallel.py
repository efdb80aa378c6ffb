"""Work in several processes, with results in the order of the jobs: output does not depend on their number."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.context import BaseContext
from typing import TypeVar, cast

from .errors import RecomposeError

Job = TypeVar("Job")
Result = TypeVar("Result")
JOBS_AHEAD = 8
"""Per process: enough to keep it busy while a long job holds up the order, few enough to keep results out of memory."""


def workers_for(size: int, size_per_process: int, wanted: int | None = None) -> int:
    """As many as wanted, else as there are cores and work for; starting one costs as much as its share of the size."""
    return wanted or min(len(os.sched_getaffinity(0)), 1 + size // size_per_process)


def in_order(
    make: Callable[[Job], Result], jobs: Iterable[Job], workers: int, find: Callable[[Job], Result | None]
) -> Iterator[tuple[Job, Result]]:
    """What is found for a job, else what is made of it. `make` is a function of a module."""
    if workers <= 1:
        yield from ((job, find(job) or make(job)) for job in jobs)
        return
    waiting: deque[tuple[Job, Result | Future[Result]]] = deque()
    with ProcessPoolExecutor(workers, _context(make.__module__), end_with_parent) as pool:
        try:
            for job in jobs:
                waiting.append((job, find(job) or pool.submit(make, job)))
                while len(waiting) > workers * JOBS_AHEAD:
                    yield _first(waiting)
            while waiting:
                yield _first(waiting)
        except BrokenProcessPool as error:
            raise RecomposeError("a process was killed, perhaps for memory", "run it again") from error
        finally:
            pool.shutdown(cancel_futures=True)


def _first(waiting: deque[tuple[Job, Result | Future[Result]]]) -> tuple[Job, Result]:
    job, result = waiting.popleft()
    return (job, cast("Future[Result]", result).result()) if isinstance(result, Future) else (job, result)


def _context(module: str) -> BaseContext:
    """Processes forked from one that has imported that module and nothing else runs in."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["__main__", module])
    return context


def end_with_parent() -> None:
    """In each process: ends it when the one that started it is gone, also by a signal that nobody can catch."""
    parent = multiprocessing.parent_process()

    def wait() -> None:
        if parent:
            parent.join()
            os._exit(1)

    threading.Thread(target=wait, daemon=True).start()
