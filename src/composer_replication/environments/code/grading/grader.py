"""Grade a submission: run the trusted tests over it, and doubt what passed.

Reads a task's folder and what an agent changed; writes nothing that outlives the call. What lowered tests computed is
compared here (`checks.py`), with what the solution gave when the task was made. Tests that could not be lowered, and
the guards, are run again with contradictions (`challenge.py`). A submission that would earn nothing costs one run,
one that breaks a guard two, any other three; one more where a task has tests of both kinds. The notes and ids of a
grade name hidden tests: they are for us, never for the agent.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from random import Random, SystemRandom

from composer_replication.errors import UsageError

from ..tasks.task import Grade, Submission, TaskFolder
from .doubts import Doubts, draw_doubts
from .mutants import grade_tests
from .orders import FirstOrders, first_orders, guard_order
from .overlay import Accepted, restrict
from .recorded import Recorded, read_recorded
from .reward import FirstRuns, settle
from .trusted_run import run_in_turn, run_trusted

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
        raise UsageError(f"{task.folder} has no hidden tests to grade with", f"recompose env verify {task.folder}")
    recorded = read_recorded(task)
    first = _first(task, accepted, recorded, first_orders(task, recorded, draw), backend)
    later: tuple[str, ...] = ()
    earns = task.code_task.share_of_units(first.hidden_passed) > 0
    if earns and not first.objections() and task.code_task.guard_tests:
        first = replace(first, guards=run_trusted(task, accepted, guard_order(task), backend))
    if earns and not first.objections() and not first.guards_broken(task.code_task):
        for _ in range(DEEP_RUNS if deep else 1):
            later = later or _last_run(task, accepted, draw_doubts(task, recorded, first.hidden_passed, draw), backend)
    return settle(task.code_task, first, later, accepted.dropped, time.monotonic() - started)


def doubted_gold(
    task: TaskFolder, gold: Submission, seeds: int, backend: str = "auto", preload: Sequence[str] = ()
) -> list[str]:
    """What the last run of a grade objects to in the solution, over several draws: nothing, if the task is sound."""
    recorded = read_recorded(task)
    doubts: list[Doubts] = [
        draw_doubts(task, recorded, frozenset(task.code_task.hidden_tests), Random(seed)) for seed in range(seeds)
    ]
    outcomes = run_in_turn(task, restrict(task, gold), [each.order for each in doubts], backend, preload=preload)
    return [objection for each, outcome in zip(doubts, outcomes, strict=True) for objection in each.objections(outcome)]


def _first(task: TaskFolder, accepted: Accepted, recorded: Recorded, asked: FirstOrders, backend: str) -> FirstRuns:
    outcomes = [run_trusted(task, accepted, order, backend) for order in asked.orders]
    passed = frozenset(
        test
        for test, run_as in asked.ids.items()
        if any(run_as in outcome.passed for outcome in outcomes)
        and (test not in recorded.tests or recorded.holds(test, outcomes[0].sent.get(run_as)))
    )
    return FirstRuns(tuple(outcomes), passed, asked.facts)


def _last_run(task: TaskFolder, accepted: Accepted, doubts: Doubts, backend: str) -> tuple[str, ...]:
    return doubts.objections(run_trusted(task, accepted, doubts.order, backend))
