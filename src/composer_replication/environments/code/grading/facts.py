"""A test file about the interpreter itself, drawn anew for each run: what judges the tests must itself be sound.

An always-true `isinstance` or `math.isclose` fails one of the facts; a report that is always `passed` also passes their
contradictions.
"""

from __future__ import annotations

from random import Random

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
    """The text of a test file."""
    chosen = chance.sample(FACTS, DRAWN)
    names = chance.sample([f"{first}_{second}" for first in WORDS for second in WORDS if first != second], len(chosen))
    imports = sorted({line for line, _ in chosen if line})
    tests = [f"def test_{name}():\n    {body}\n" for name, (_, body) in zip(names, chosen, strict=True)]
    return "\n\n".join(["\n".join(imports) + "\n", *tests])


def draw_file_name(chance: Random) -> str:
    """Of a test file; one in ten thousand."""
    return f"test_{'_'.join(chance.sample(WORDS, 3))}.py"
