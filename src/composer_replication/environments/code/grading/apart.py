"""Grades in processes of their own, so that the process that samples keeps its interpreter for the model.

A grade compares and parses for a tenth of a second. In threads of a training process those add up, since one of them
runs at a time. A worker ends with the process that started it.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import lru_cache
from pathlib import Path

from ..tasks.store import read_task
from ..tasks.task import Grade, Submission, TaskFolder
from .grader import grade


class GradingProcesses:
    """Started by the first grade that is asked for."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._pool: ProcessPoolExecutor | None = None
        self._lock = threading.Lock()

    def grade(self, task: TaskFolder, submission: Submission, backend: str, deep: bool = False) -> Grade:
        """A worker that was killed costs a second try, in new workers."""
        pool = self._started()
        try:
            return pool.submit(_grade, task.folder, submission, backend, deep).result()
        except BrokenProcessPool:
            self._drop(pool)
            return self._started().submit(_grade, task.folder, submission, backend, deep).result()

    def _started(self) -> ProcessPoolExecutor:
        with self._lock:
            if self._pool is None:
                spawn = multiprocessing.get_context("spawn")
                self._pool = ProcessPoolExecutor(self._most, spawn, _begin)
            return self._pool

    def _drop(self, pool: ProcessPoolExecutor) -> None:
        with self._lock:
            if self._pool is pool:
                self._pool = None


def _begin() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_the_parent, daemon=True).start()


def _end_with_the_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _grade(folder: Path, submission: Submission, backend: str, deep: bool) -> Grade:
    return grade(_task(folder), submission, backend, deep=deep)


@lru_cache(maxsize=512)
def _task(folder: Path) -> TaskFolder:
    return read_task(folder)
