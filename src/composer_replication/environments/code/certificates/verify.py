"""Check finished tasks again: their files, doing nothing (0), the solution (1), whether the Harbor folder's verifier
comes to the same rewards, and the leak certificate."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from composer_replication.progress import Progress, Silent

from ..grading.grader import doubted_gold, grade
from ..tasks.store import gold_submission, read_tasks, unchanged
from ..tasks.task import Submission, TaskFolder
from .certify import recertify_leaks
from .two_verifiers import NOTHING, SOLUTION, both_verdicts, honest_submissions, own_copies, warm_run

DEEP_DRAWS = 50
CHECKS = ("files", "nop", "gold", "verifiers", "leaks")


class Checked(NamedTuple):
    task: str
    failed: dict[str, str]
    """Check -> what was seen."""


def verify(
    folder: Path, backend: str = "auto", jobs: int = 2, progress: Progress | None = None, deep: bool = False
) -> dict[str, Any]:
    """`deep` doubts the solution over many draws."""
    progress = progress or Silent()
    tasks = read_tasks(folder)
    progress.stage("verify", f"{len(tasks)} tasks of {folder}")
    results: list[Checked] = []
    with ThreadPoolExecutor(jobs) as pool:
        for result in pool.map(lambda task: verify_task(task, backend, DEEP_DRAWS if deep else 0), tasks):
            results.append(result)
            bad = sum(bool(checked.failed) for checked in results)
            progress.step(len(results), len(tasks), f"{bad} failed" if bad else "all good")
    failures = Counter(check for checked in results for check in checked.failed)
    return {
        "tasks": len(results),
        "passed": sum(not checked.failed for checked in results),
        **{f"{check}_ok": len(results) - failures[check] for check in CHECKS},
        "failed": {checked.task: checked.failed for checked in results if checked.failed},
    }


def verify_task(task: TaskFolder, backend: str = "auto", draws: int = 0) -> Checked:
    return Checked(task.folder.name, dict(_failures(task, backend, draws)))


def _missed(task: TaskFolder, draws: int, backend: str) -> list[str]:
    doubted = draws and task.code_task.grader == "tests"
    return doubted_gold(task, gold_submission(task), draws, backend) if doubted else []


def _failures(task: TaskFolder, backend: str, draws: int) -> Iterator[tuple[str, str]]:
    if not unchanged(task):
        yield "files", "the folder is not what its record says"
    nop = grade(task, Submission(), backend)
    if nop.reward != 0:
        yield "nop", f"reward {nop.reward}"
    gold = grade(task, gold_submission(task), backend)
    if gold.reward != 1:
        yield "gold", f"reward {gold.reward} {' '.join(gold.notes)}".strip()
    elif missed := _missed(task, draws, backend):
        yield "gold", f"{len(missed)} objections in {draws} draws, first {missed[0]}"
    submissions = honest_submissions(task, own_copies(task))
    with warm_run(task, backend) as run:
        verdicts = both_verdicts(task, submissions, {NOTHING: nop.reward, SOLUTION: gold.reward}, run, backend)
    if disagreement := verdicts.disagreement():
        yield "verifiers", disagreement
    certificate = recertify_leaks(task, backend)
    if not certificate.passed:
        first = certificate.hard()[0]
        yield "leaks", f"{first.check} {first.path}:{first.line} {first.detail}"
