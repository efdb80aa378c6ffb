"""Grades in processes of their own are the same grades, and a worker that dies costs a second try."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys

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


INTERRUPTED = """
import os
import sys
from composer_replication.cli import main
from composer_replication.environments.code.grading.grader import GradingProcesses

processes = GradingProcesses(2)

def graded_then_interrupted():
    processes._started().submit(os.getpid).result()
    raise KeyboardInterrupt

if __name__ == "__main__":
    main._call = graded_then_interrupted
    main.main()
"""


def test_an_interrupt_after_a_grade_ends_the_program(tmp_path):
    """Its workers were waited for, and they waited for work: it stayed until somebody killed it."""
    script = tmp_path / "interrupted.py"
    script.write_text(INTERRUPTED)
    ended = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60)
    assert ended.returncode == 130
    assert ended.stderr.startswith("error: interrupted") and ended.stderr.count("\n") == 1
