"""Grade a submission: run the trusted tests over it, and run them again with contradictions where something passed.

Reads a task's folder and what an agent changed; writes nothing that outlives the call. A submission that passes no
hidden test or breaks a guard costs one run, any other two. What an agent can still do is told in `challenge.py`. The
notes and ids of a grade name hidden tests: they are for us, never for the agent.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import PurePosixPath
from random import Random, SystemRandom

from composer_replication.errors import UsageError

from ..tasks.task import CodeTask, Grade, Submission, TaskFolder
from ..tasks.test_ids import file_of
from .challenge import draw_challenge
from .contradict import function_names
from .facts import draw_facts
from .mutants import grade_tests
from .overlay import Accepted, plain_files, restrict
from .reward import FirstRun, challenge_objections, settle
from .trusted_run import Order, run_trusted

HIDDEN_SHARE = 0.6
GUARD_SHARE = 0.3
FACT_SHARE = 0.5
OTHER_FILES = 2
DEEP_RUNS = 3


def grade(
    task: TaskFolder, submission: Submission, backend: str = "auto", chance: Random | None = None, deep: bool = False
) -> Grade:
    """`chance` draws the contradictions; give one only to repeat a draw. `deep`: several second runs, each with a draw
    of its own, so that nearly every test is contradicted once; for what somebody has reason to doubt."""
    started = time.monotonic()
    accepted = restrict(task, submission)
    draw = chance or SystemRandom()
    if task.code_task.grader == "mutants":
        return grade_tests(task, accepted, backend, draw)
    code_task = task.code_task
    if not code_task.hidden_tests:
        raise UsageError(f"{task.folder} has no hidden tests to grade with", f"recompose env verify {task.folder}")
    facts = _Facts.drawn(code_task, draw)
    tests = (*code_task.hidden_tests, *code_task.guard_tests, *sorted(facts.tests))
    order = Order(tests, tuple(sorted({file_of(test) for test in tests})), {facts.path: facts.text.encode()})
    first = FirstRun(run_trusted(task, accepted, order, backend), facts.tests)
    later: tuple[str, ...] = ()
    if first.hidden_passed(code_task) and not first.objections() and not first.guards_broken(code_task):
        for _ in range(DEEP_RUNS if deep else 1):
            later = later or _second_run(task, accepted, first, backend, draw)
    return settle(code_task, first, later, accepted.dropped, time.monotonic() - started)


def _second_run(task: TaskFolder, accepted: Accepted, first: FirstRun, backend: str, draw: Random) -> tuple[str, ...]:
    """Over the files that hold hidden tests, and some of the others."""
    code_task = task.code_task
    facts = _Facts.drawn(code_task, draw)
    hidden_files = {file_of(test) for test in code_task.hidden_tests}
    other_files = sorted({file_of(test) for test in code_task.guard_tests} - hidden_files)
    files = {*hidden_files, *draw.sample(other_files, min(OTHER_FILES, len(other_files))), facts.path}
    guards = tuple(test for test in code_task.guard_tests if file_of(test) in files)
    groups = ((first.hidden_passed(code_task), HIDDEN_SHARE), (guards, GUARD_SHARE), (facts.tests, FACT_SHARE))
    challenge = draw_challenge(_trusted_texts(task) | {facts.path: facts.text}, groups, draw)
    texts = {facts.path: facts.text} | dict(challenge.texts)
    order = Order(
        (*code_task.hidden_tests, *guards, *sorted(facts.tests)),
        tuple(sorted(files)),
        {path: text.encode() for path, text in texts.items()},
    )
    return challenge_objections(challenge, run_trusted(task, accepted, order, backend))


def _trusted_texts(task: TaskFolder) -> dict[str, str]:
    """Every Python file that a test may stand in."""
    trusted = {path: (task.overlay / path).read_bytes() for path in plain_files(task.overlay) if path.endswith(".py")}
    in_tree = {path for path in task.code_task.test_files if path not in trusted and (task.tree / path).is_file()}
    trusted |= {path: (task.tree / path).read_bytes() for path in sorted(in_tree)}
    return {path: content.decode(errors="replace") for path, content in trusted.items()}


@dataclass(frozen=True)
class _Facts:
    path: str
    text: str

    @staticmethod
    def drawn(code_task: CodeTask, draw: Random) -> _Facts:
        """Next to the hidden tests, so that its place tells nothing."""
        name, text = draw_facts(draw)
        folder = PurePosixPath(file_of(draw.choice(code_task.hidden_tests))).parent
        return _Facts((folder / name).as_posix(), text)

    @property
    def tests(self) -> frozenset[str]:
        return frozenset(f"{self.path}::{name}" for name in function_names(self.text))
