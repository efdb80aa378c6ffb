"""Grade a submission: run the trusted tests over it, and doubt what passed.

Reads a task's folder and what an agent changed; writes nothing that outlives the call. What lowered tests computed is
compared here (`checks.py`), with what the solution gave when the task was made. Tests that could not be lowered, and
the guards, are run again with contradictions (`challenge.py`). A submission that would earn nothing costs one run,
one that breaks a guard two, any other three; one more where a task has tests of both kinds. The notes and ids of a
grade name hidden tests: they are for us, never for the agent.
"""

from __future__ import annotations

import multiprocessing
import signal
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from functools import lru_cache
from multiprocessing.util import Finalize
from pathlib import Path
from random import Random, SystemRandom

from composer_replication.errors import UsageError, quoted
from composer_replication.parallel import end_with_parent

from ..tasks.store import read_task
from ..tasks.task import CodeTask, Grade, Submission, TaskFolder
from .challenge import draw_doubts
from .mutants import grade_tests
from .orders import FirstOrders, first_orders, guard_order
from .overlay import Accepted, restrict
from .recorded import Recorded, read_recorded
from .trusted_run import RunOutcome, run_in_turn, run_trusted

DEEP_RUNS = 3


def grade(
    task: TaskFolder, submission: Submission, backend: str = "auto", chance: Random | None = None, deep: bool = False
) -> Grade:
    """`chance` draws the contradictions; give one only to repeat a draw. `deep`: several last runs, each with a draw of
    its own, so that nearly every test is contradicted once; for what somebody has reason to doubt."""
    started = time.monotonic()
    accepted = restrict(task, submission)
    draw = chance or SystemRandom()
    if task.code_task.grader == "mutants":
        return grade_tests(task, accepted, backend, draw)
    if not task.code_task.hidden_tests:
        check = f"recompose env verify {quoted(task.folder)}"
        raise UsageError(f"{task.folder} has no hidden tests to grade with", check)
    recorded = read_recorded(task)
    first = _first(task, accepted, recorded, first_orders(task, recorded, draw), backend)
    later: tuple[str, ...] = ()
    earns = task.code_task.share_of_units(first.hidden_passed) > 0
    if earns and not first.objections() and task.code_task.guard_tests:
        first = replace(first, guards=run_trusted(task, accepted, guard_order(task), backend))
    if earns and not first.objections() and not first.guards_broken(task.code_task):
        for _ in range(DEEP_RUNS if deep else 1):
            order, challenge = draw_doubts(task, recorded, first.hidden_passed, draw)
            later = challenge.objections(run_trusted(task, accepted, order, backend))
            if later:
                break
    return settle(task.code_task, first, later, accepted.dropped, time.monotonic() - started)


def doubted_gold(
    task: TaskFolder, gold: Submission, seeds: int, backend: str = "auto", preload: Sequence[str] = ()
) -> list[str]:
    """What the last run of a grade objects to in the solution, over several draws: nothing, if the task is sound."""
    recorded = read_recorded(task)
    passed = frozenset(task.code_task.hidden_tests)
    doubts = [draw_doubts(task, recorded, passed, Random(seed)) for seed in range(seeds)]
    outcomes = run_in_turn(task, restrict(task, gold), [order for order, _ in doubts], backend, preload=preload)
    pairs = zip(doubts, outcomes, strict=True)
    return [objection for (_, challenge), outcome in pairs for objection in challenge.objections(outcome)]


def _first(task: TaskFolder, accepted: Accepted, recorded: Recorded, asked: FirstOrders, backend: str) -> FirstRuns:
    outcomes = [run_trusted(task, accepted, order, backend) for order in asked.orders]
    passed = frozenset(
        test
        for test, run_as in asked.ids.items()
        if any(run_as in outcome.passed for outcome in outcomes)
        and (test not in recorded.tests or recorded.holds(test, outcomes[0].sent.get(run_as)))
    )
    return FirstRuns(tuple(outcomes), passed, asked.facts)


@dataclass(frozen=True)
class FirstRuns:
    outcomes: tuple[RunOutcome, ...]
    hidden_passed: frozenset[str]
    facts: frozenset[str]
    """Ids of the file about the interpreter itself; they are in the first outcome."""
    guards: RunOutcome | None = None
    """Not run where no unit passed or something is objected to: the reward is 0 without them."""

    def guards_broken(self, code_task: CodeTask) -> tuple[str, ...]:
        return tuple(test for test in code_task.guard_tests if self.guards and test not in self.guards.passed)

    def objections(self) -> tuple[str, ...]:
        """Why nothing of these runs counts; empty: it does."""
        outcomes = (*self.outcomes, *((self.guards,) if self.guards else ()))
        late = any(outcome.timed_out for outcome in outcomes)
        notes = dict.fromkeys(note for outcome in outcomes for note in outcome.notes)
        unsound = self.facts - self.outcomes[0].passed
        facts = (f"{len(unsound)} facts about the interpreter itself do not hold",) if unsound else ()
        return (*(("the tests did not end in time",) if late else ()), *notes, *facts)


def settle(
    code_task: CodeTask,
    first: FirstRuns,
    later_objections: tuple[str, ...],
    dropped: tuple[str, ...],
    wall_s: float,
) -> Grade:
    """The reward is the share of the task's units (hidden tests that count together) that passed; 0 where a guard is
    broken, time ran out, or a run said what no honest run says."""
    passed = tuple(test for test in code_task.hidden_tests if test in first.hidden_passed)
    broken = first.guards_broken(code_task)
    objections = (*first.objections(), *later_objections)
    honest = not objections and not broken
    return Grade(
        reward=code_task.share_of_units(passed) if honest else 0.0,
        hidden_passed=passed,
        hidden_failed=tuple(test for test in code_task.hidden_tests if test not in first.hidden_passed),
        guards_broken=broken,
        dropped=dropped,
        notes=objections,
        wall_s=wall_s,
    )


class GradingProcesses:
    """Keep the interpreter of the process that samples for its model: a grade compares and parses for a tenth of a
    second, and in threads those add up. Started by the first grade; with one at a time it runs here."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._pool: ProcessPoolExecutor | None = None
        self._lock = threading.Lock()

    def grade(self, task: TaskFolder, submission: Submission, backend: str, deep: bool = False) -> Grade:
        """A worker that was killed costs a second try, in new workers."""
        if self._most == 1:
            return grade(task, submission, backend, deep=deep)
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
                self._pool = pool = ProcessPoolExecutor(self._most, spawn, _begin)
                # After an interrupt they are waited for, so they are told to end before their queues close, at 10.
                Finalize(self, pool.shutdown, kwargs={"cancel_futures": True}, exitpriority=20)
            return self._pool

    def _drop(self, pool: ProcessPoolExecutor) -> None:
        with self._lock:
            if self._pool is pool:
                self._pool = None


def _begin() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent()


def _grade(folder: Path, submission: Submission, backend: str, deep: bool) -> Grade:
    return grade(_task(folder), submission, backend, deep=deep)


@lru_cache(maxsize=512)
def _task(folder: Path) -> TaskFolder:
    return read_task(folder)
