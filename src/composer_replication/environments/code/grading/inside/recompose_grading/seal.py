"""Runs inside the grading sandbox: which functions of the interpreter, of its library or of pytest were exchanged.

Remembers, before code of a submission is imported, the functions and classes of pytest, of the modules that tests judge
by and of those that send what is compared outside, with the members of those classes and the code of those functions,
and compares later. It lives in the same process as the submission: it shows the plain exchange of `math.isclose` or
`unittest.TestCase.assertEqual`; code written against it can hide.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

JUDGES = frozenset(
    "builtins math cmath operator itertools functools re json random time datetime decimal fractions collections copy"
    " unittest.case unittest.mock pytest _pytest.python_api _pytest.raises _pytest.outcomes _pytest.runner"
    " _pytest.reports _pytest.recwarn os.path posixpath string statistics types".split()
)
TEST_TOOLS = frozenset({"pytest", "_pytest", "pluggy", "unittest"})
MEMBER_KINDS = (FunctionType, staticmethod, classmethod, property)

Entry = tuple[str, Mapping[str, Any], str, Any, object]


class Seal:
    def __init__(self, own: Mapping[str, ModuleType]) -> None:
        """`own` cannot be found among the loaded modules."""
        self._own = own
        self._entries: list[Entry] = []
        self._judges: list[Entry] = []

    def close(self) -> None:
        """Remember what is there now."""
        seen: set[int] = set()
        for name, module in [*sys.modules.items(), *self._own.items()]:
            if name in JUDGES or name in self._own or name.partition(".")[0] in TEST_TOOLS:
                entries = _entries(name, module, seen)
                self._entries += entries
                if name in JUDGES or name in self._own:
                    self._judges += entries

    def exchanged(self) -> list[str]:
        return _changed(self._entries)

    def exchanged_judges(self) -> list[str]:
        """The short list, for after each test."""
        return _changed(self._judges)


def _entries(name: str, module: ModuleType, seen: set[int]) -> list[Entry]:
    found: list[Entry] = []
    space: Mapping[str, Any] = getattr(module, "__dict__", {})
    for key, value in list(space.items()):
        label = f"{name}.{key}"
        if not isinstance(value, (FunctionType, BuiltinFunctionType, type)):
            continue
        found.append((label, space, key, value, getattr(value, "__code__", None)))
        if isinstance(value, type) and id(value) not in seen:
            seen.add(id(value))
            found += [
                (f"{label}.{member}", vars(value), member, content, getattr(content, "__code__", None))
                for member, content in list(vars(value).items())
                if isinstance(content, MEMBER_KINDS)
            ]
    return found


def _changed(entries: list[Entry]) -> list[str]:
    return [
        label
        for label, space, key, value, code in entries
        if space.get(key) is not value or (code is not None and value.__code__ is not code)
    ]
