"""Runs inside the grading sandbox: one record per test, and whether the judges of the tests were exchanged.

Needs pytest and nothing of ours. Keeps only the tests that the order names. A test has passed when its set-up, call and
clean-up all passed and it was not expected to fail. What it sent to be compared outside goes with its record.
"""

from __future__ import annotations

import gc
import json
import math
import os
from collections.abc import Mapping
from types import FunctionType
from typing import Any

import pytest
from _pytest import runner

from . import observing, plain_form
from .memory_modules import MemoryModules, compile_ahead
from .observing import Observer
from .seal import Seal

MAX_NAMES = 5
MAX_RECORD_BYTES = 1 << 20


class Recorder:
    def __init__(
        self, channel: int, token: str, number: int, order: Mapping[str, Any], texts: Mapping[str, str]
    ) -> None:
        self._channel, self._token, self._number = channel, token, number
        self._wanted: frozenset[str] = frozenset(order["tests"])
        self._functions = {test.partition("::")[2].partition("[")[0].rpartition("::")[2] for test in self._wanted}
        self._isolated: bool = order["isolated"]
        self._listed: bool = order["listed"]
        self._watched: bool = order["watched"]
        self._observer = Observer()
        self._modules = MemoryModules(texts, {**self._observer.names(), "_other": other})
        self._phases: dict[str, list[str]] = {}
        self._exchanged: set[str] = set()
        # The variable PYTEST_CURRENT_TEST would tell the code under test that it is being tested, and by what.
        runner._update_current_test_var = _say_nothing  # pyright: ignore[reportPrivateUsage]
        self._seal = Seal({"observing": observing, "plain_form": plain_form})

    @pytest.hookimpl(tryfirst=True)
    def pytest_load_initial_conftests(self) -> None:
        self._modules.go_first()

    def pytest_sessionstart(self) -> None:
        self._modules.go_first()
        if self._watched:
            self._seal.close()

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._write(kind="collection", id=report.nodeid)

    @pytest.hookimpl(tryfirst=True)
    def pytest_pycollect_makeitem(self, name: str, obj: object) -> list[pytest.Item] | None:
        """Parameter sets of functions that no wanted test belongs to are not even made."""
        is_other = self._wanted and not self._listed and name not in self._functions
        return [] if is_other and type(obj) is FunctionType else None

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        if self._listed:
            self._write(kind="collected", ids=[item.nodeid for item in items])
        if self._wanted:
            items[:] = [item for item in items if item.nodeid in self._wanted]

    def pytest_collection_finish(self) -> None:
        self._report_exchanged(self._seal.exchanged())
        if self._isolated:
            gc.freeze()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> bool | None:
        """With `isolated` each test has a process of its own, with all of its set-up and clean-up."""
        self._observer.take()
        if not self._isolated:
            return None
        child = os.fork()
        if child == 0:
            try:
                item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
                runner.runtestprotocol(item, nextitem=None)
                item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        outcome = "expected" if hasattr(report, "wasxfail") else report.outcome
        self._phases.setdefault(report.nodeid, []).append(f"{report.when}:{outcome}")

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        phases = self._phases.pop(nodeid, [])
        whole = {"setup:passed", "call:passed", "teardown:passed"}
        outcome = "passed" if set(phases) == whole else _worst(phases)
        self._write(kind="test", id=nodeid, outcome=outcome, seen=self._observer.take())
        self._report_exchanged(self._seal.exchanged_judges())

    def pytest_sessionfinish(self) -> None:
        self._report_exchanged(self._seal.exchanged())

    def end(self) -> None:
        self._write(kind="end")

    def _report_exchanged(self, names: list[str]) -> None:
        new = [name for name in names if name not in self._exchanged][:MAX_NAMES]
        self._exchanged.update(names)
        if new:
            self._write(kind="exchanged", names=new)

    def _write(self, **record: object) -> None:
        self.say(self._channel, token=self._token, order=self._number, **record)

    compile_ahead = staticmethod(compile_ahead)

    @staticmethod
    def say(channel: int, **record: object) -> None:
        line = (json.dumps(record) + "\n").encode()
        if len(line) > MAX_RECORD_BYTES:
            line = (json.dumps({**record, "seen": None}) + "\n").encode()
        while line:
            line = line[os.write(channel, line) :]


def _worst(phases: list[str]) -> str:
    outcomes = {phase.partition(":")[2] for phase in phases} - {"passed"}
    return min(outcomes) if outcomes else "incomplete"


def _say_nothing(item: pytest.Item, when: str | None) -> None:
    return None


def other(value: Any) -> Any:
    """Surely not equal to the value. What has no other of its type that is surely different comes in a list."""
    kind = type(value)
    if kind is bool:
        return not value
    if (kind is int or kind is float) and math.isfinite(value) and value + 1 != value:
        return value + 1
    if kind is str:
        return _other_text(value)
    if kind is bytes:
        return value + b"1"
    if kind is list or kind is tuple:
        return kind((*value[:-1], other(value[-1]))) if value else kind((0,))
    if kind is dict:
        return {key: other(entry) for key, entry in value.items()} | {_unused_key(value): 0}
    if kind is set or kind is frozenset:
        return value | {"another"} if "another" not in value else value - {"another"}
    return [value]


def _unused_key(known: dict[Any, Any]) -> str:
    """What is compared may look at the keys alone."""
    key = "another"
    while key in known:
        key += " one"
    return key


def _other_text(text: str) -> str:
    letter = next((letter for letter in "ae1" if letter != text[-1:].casefold()), "a")
    return text[:-1] + letter
