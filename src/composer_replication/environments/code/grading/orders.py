"""What the runs of a grade are asked: which tests, from which texts, under which names.

Pure but for reading the task's folder. The first run sees the calls of the lowered hidden tests and facts about the
interpreter: no expected value of a hidden test is in its process. Hidden tests that could not be lowered are run apart,
from their original text, and so are the guards, which the agent knows. Modules that it does not know have names that
are drawn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import PurePosixPath
from random import Random

from ..tasks.task import TaskFolder
from ..tasks.test_ids import file_of
from .contradict import function_names
from .facts import draw_facts, draw_file_name
from .overlay import unseen_texts
from .recorded import Recorded
from .trusted_run import Order


@dataclass(frozen=True)
class Drawn:
    """A module under a drawn name, next to the test file that it belongs to."""

    path: str
    text: str

    def tests(self, names: Sequence[str]) -> tuple[str, ...]:
        return tuple(f"{self.path}::{name}" for name in names)


@dataclass(frozen=True)
class FirstOrders:
    orders: tuple[Order, ...]
    facts: frozenset[str]
    ids: Mapping[str, str]
    """Hidden test -> the id that it has in these runs."""


def lowered_tests(task: TaskFolder, recorded: Recorded) -> tuple[str, ...]:
    return tuple(test for test in task.code_task.hidden_tests if test in recorded.tests)


def unlowered_tests(task: TaskFolder, recorded: Recorded) -> tuple[str, ...]:
    return tuple(test for test in task.code_task.hidden_tests if test not in recorded.tests)


def first_orders(task: TaskFolder, recorded: Recorded, draw: Random) -> FirstOrders:
    lowered, unlowered = lowered_tests(task, recorded), unlowered_tests(task, recorded)
    facts = drawn_facts(task, draw)
    used = sorted({recorded.tests[test].path for test in lowered})
    modules = {path: Drawn(beside(path, draw), recorded.modules[path].graded) for path in used}
    ids = {test: f"{modules[recorded.tests[test].path].path}::{recorded.tests[test].name}" for test in lowered}
    ids |= {test: test for test in unlowered}
    fact_ids = facts.tests(sorted(function_names(facts.text)))
    together = () if lowered else unlowered
    tests = [*(ids[test] for test in (*lowered, *together)), *fact_ids]
    texts = {module.path: module.text for module in (*modules.values(), facts)}
    orders = [_order(tests, known_texts(task) | shown_texts(task, bool(together)) | texts)]
    if lowered and unlowered:
        orders.append(_order(unlowered, shown_texts(task, True)))
    return FirstOrders(tuple(orders), frozenset(fact_ids), ids)


def guard_order(task: TaskFolder) -> Order:
    return _order(task.code_task.guard_tests, known_texts(task) | shown_texts(task, hidden_too=False))


def drawn_facts(task: TaskFolder, draw: Random) -> Drawn:
    """Next to the hidden tests, so that its place tells nothing."""
    return Drawn(beside(file_of(draw.choice(task.code_task.hidden_tests)), draw), draw_facts(draw))


def known_texts(task: TaskFolder) -> dict[str, str]:
    """Test files as the agent has them: in memory too, where nothing that is imported first can overwrite them."""
    found: dict[str, str] = {}
    for path in task.code_task.test_files:
        if path.endswith(".py") and (task.tree / path).is_file():
            with suppress(UnicodeDecodeError):
                found[path] = (task.tree / path).read_bytes().decode()
    return found


def shown_texts(task: TaskFolder, hidden_too: bool) -> dict[str, str]:
    """Trusted files that the agent does not have: with the hidden tests, or only what stands beside them."""
    tests = set() if hidden_too else {*task.code_task.test_files}
    return {path: text for path, text in unseen_texts(task).items() if path not in tests}


def _order(tests: Sequence[str], texts: Mapping[str, str]) -> Order:
    return Order(tuple(tests), tuple(sorted({file_of(test) for test in tests})), texts)


def beside(path: str, draw: Random) -> str:
    return (PurePosixPath(path).parent / draw_file_name(draw)).as_posix()
