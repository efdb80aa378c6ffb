"""Runs inside the grading sandbox: one record per test, and whether the judges of the tests were exchanged.

Needs pytest and nothing of ours. Keeps only the tests that the order names. A test has passed when its set-up, call and
clean-up all passed and it was not expected to fail.
"""

from __future__ import annotations

import json
import os

import pytest
from _pytest import runner

from .seal import Seal

MAX_NAMES = 5


class Recorder:
    def __init__(self, channel: int, token: str, wanted: frozenset[str]) -> None:
        self._channel, self._token, self._wanted = channel, token, wanted
        self._phases: dict[str, list[str]] = {}
        self._exchanged: set[str] = set()
        # The variable PYTEST_CURRENT_TEST would tell the code under test that it is being tested, and by what.
        runner._update_current_test_var = _say_nothing  # pyright: ignore[reportPrivateUsage]
        self._seal = Seal()

    def ready(self) -> None:
        """Before any code of the submission: from here on, what goes wrong is the submission's."""
        self._write(kind="ready")

    def pytest_sessionstart(self) -> None:
        self._seal.close()

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._write(kind="collection", id=report.nodeid)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        if self._wanted:
            items[:] = [item for item in items if item.nodeid in self._wanted]

    def pytest_collection_finish(self) -> None:
        self._report_exchanged(self._seal.exchanged())

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        outcome = "expected" if hasattr(report, "wasxfail") else report.outcome
        self._phases.setdefault(report.nodeid, []).append(f"{report.when}:{outcome}")

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        phases = self._phases.pop(nodeid, [])
        whole = {"setup:passed", "call:passed", "teardown:passed"}
        self._write(kind="test", id=nodeid, outcome="passed" if set(phases) == whole else _worst(phases))
        self._report_exchanged(self._seal.exchanged_judges())

    def pytest_sessionfinish(self) -> None:
        self._report_exchanged(self._seal.exchanged())

    def end(self, code: int) -> None:
        self._write(kind="end", code=code)

    def _report_exchanged(self, names: list[str]) -> None:
        new = [name for name in names if name not in self._exchanged][:MAX_NAMES]
        self._exchanged.update(names)
        if new:
            self._write(kind="exchanged", names=new)

    def _write(self, **record: object) -> None:
        os.write(self._channel, (json.dumps({"token": self._token, **record}) + "\n").encode())


def _worst(phases: list[str]) -> str:
    outcomes = {phase.partition(":")[2] for phase in phases} - {"passed"}
    return min(outcomes) if outcomes else "incomplete"


def _say_nothing(item: pytest.Item, when: str | None) -> None:
    return None
