"""Grades in processes of their own are the same grades, and a worker that dies costs a second try."""

from __future__ import annotations

import multiprocessing

from composer_replication.environments.code.grading.grader import GradingProcesses
from tests.hacks.sample_task import GOLD, NOP, write_sample_task


def test_a_worker_that_was_killed_is_replaced(tmp_path):
    task = write_sample_task(tmp_path / "task")
    processes = GradingProcesses(2)
    before = set(multiprocessing.active_children())
    assert processes.grade(task, GOLD, "auto").reward == 1.0
    (worker,) = set(multiprocessing.active_children()) - before
    worker.kill()
    worker.join()
    assert processes.grade(task, NOP, "auto").reward == 0.0
