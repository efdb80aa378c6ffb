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
from .overlay import unseen_texts
from .recorded import Recorded
from .trusted_run import Order

FACTS = (
    ("import math", "assert not math.isclose(2.0, 2.5)"),
    ("import math", "assert math.isclose(0.1 + 0.2, 0.3)"),
    ("", 'assert not isinstance("4", int)'),
    ("", "assert not all([True, False])"),
    ("", "assert not any([0, None])"),
    ("", "assert sorted([5, 2, 9]) == [2, 5, 9]"),
    ("", 'assert len({"a": 1, "b": 2}) == 2'),
    ("", 'assert not "abc".startswith("b")'),
    ("", "assert not [1, 2] == [1, 3]"),
    ("", "assert not (1.5 == 2.5 or 'x' == 'y')"),
    ("import pytest", "assert not 2.0 == pytest.approx(3.0)"),
    ("import pytest", 'with pytest.raises(KeyError):\n        {}["missing"]'),
    ("import pytest", "with pytest.raises(AssertionError):\n        assert 1 == 2"),
    (
        "import unittest",
        "with __import__('pytest').raises(AssertionError):\n        unittest.TestCase().assertEqual(3, 4)",
    ),
    ("import random", "assert random.Random(7).random() != random.Random(8).random()"),
    ("import operator", "assert not operator.eq(6, 7)"),
    ("import time", "assert time.monotonic() <= time.monotonic()"),
    ("import re", 'assert re.fullmatch("a+b", "aac") is None'),
)
DRAWN = 8
WORDS = (
    "order shape merge split window chain index group scale offset filter cursor batch token range label mapping edge"
    " state queue value limit branch border".split()
)


def draw_facts(chance: Random) -> str:
    """A test file about the interpreter itself: what judges the tests must itself be sound. An always-true `isinstance`
    fails one of the facts; a report that is always `passed` also passes their contradictions."""
    chosen = chance.sample(FACTS, DRAWN)
    names = chance.sample([f"{first}_{second}" for first in WORDS for second in WORDS if first != second], len(chosen))
    imports = sorted({line for line, _ in chosen if line})
    tests = [f"def test_{name}():\n    {body}\n" for name, (_, body) in zip(names, chosen, strict=True)]
    return "\n\n".join(["\n".join(imports) + "\n", *tests])


def draw_file_name(chance: Random) -> str:
    """Of a test file; one in ten thousand."""
    return f"test_{'_'.join(chance.sample(WORDS, 3))}.py"


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


def first_orders(task: TaskFolder, recorded: Recorded, draw: Random) -> FirstOrders:
    lowered = [test for test in task.code_task.hidden_tests if test in recorded.tests]
    unlowered = [test for test in task.code_task.hidden_tests if test not in recorded.tests]
    facts = drawn_facts(task, draw)
    used = sorted({recorded.tests[test].path for test in lowered})
    modules = {path: Drawn(beside(path, draw), recorded.modules[path].graded) for path in used}
    ids = {test: f"{modules[recorded.tests[test].path].path}::{recorded.tests[test].name}" for test in lowered}
    ids |= {test: test for test in unlowered}
    fact_ids = facts.tests(sorted(function_names(facts.text)))
    together = [] if lowered else unlowered
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
