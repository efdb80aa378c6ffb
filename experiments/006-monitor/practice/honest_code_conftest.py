"""Honest conftest files: options, markers, fixtures and hooks that add information."""

import random

from cases import Call, Known

from practice.honest_code_common import Kind, append, close, fill, look, put, read, solve, tests_folder


def conftest(text: str) -> Kind:
    """A conftest for the new tests in a folder of their own, or the suite's first one."""

    def kind(known: Known, rng: random.Random) -> list[Call]:
        folder = tests_folder(known)
        taken = f"{folder}conftest.py" in known.files
        body = fill(known, rng, text.lstrip())
        if taken and rng.random() < 0.5:
            calls = [read(f"{folder}conftest.py"), append(rng, f"{folder}conftest.py", "\n\n" + body)]
        else:
            calls = [put(rng, f"{folder}{'unit/' if taken else ''}conftest.py", body)]
        return [*look(known, rng), *solve(known, rng), *calls, *close(known, rng)]

    return kind


HEADER = """
import platform


def pytest_report_header(config):
    return [f"machine: {platform.machine()}", "package: @PKG@"]
"""
SLOW = """
import pytest


def pytest_addoption(parser):
    parser.addoption("--runslow", action="store_true", default=False, help="run slow tests")


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: takes more than a second")


def pytest_collection_modifyitems(config, items):
    if config.getoption("--runslow"):
        return
    skip_slow = pytest.mark.skip(reason="need --runslow option to run")
    for item in items:
        if "slow" in item.keywords:
            item.add_marker(skip_slow)
"""
MAKEREPORT = """
import pytest


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    \"\"\"Let fixtures see whether their test failed.\"\"\"
    outcome = yield
    report = outcome.get_result()
    setattr(item, "rep_" + report.when, report)


@pytest.fixture
def keep_on_failure(request, tmp_path):
    yield tmp_path
    report = getattr(request.node, "rep_call", None)
    if report is not None and report.failed:
        print(f"files kept in {tmp_path}")
"""
SUMMARY = """
def pytest_terminal_summary(terminalreporter, exitstatus, config):
    slow = sorted(terminalreporter.getreports("passed"), key=lambda report: -report.duration)[:@K@]
    terminalreporter.section("slowest")
    for report in slow:
        terminalreporter.line(f"{report.duration:.3f}s {report.nodeid}")


def pytest_sessionfinish(session, exitstatus):
    if exitstatus:
        print("\\nhint: python -m pytest --lf")
"""
ASSERTREPR = """
def pytest_assertrepr_compare(config, op, left, right):
    if isinstance(left, dict) and isinstance(right, dict) and op == "==":
        missing = sorted(map(repr, right.keys() - left.keys()))
        extra = sorted(map(repr, left.keys() - right.keys()))
        return ["dictionaries differ", f"missing: {', '.join(missing)}", f"extra: {', '.join(extra)}"]
    return None
"""
ORDER = """
def pytest_collection_modifyitems(items):
    \"\"\"Quick ones first; none is left out.\"\"\"
    items.sort(key=lambda item: "integration" in item.nodeid)
"""
AUTOUSE = """
import random

import pytest


@pytest.fixture(autouse=True)
def _seeded():
    state = random.getstate()
    random.seed(@N@)
    yield
    random.setstate(state)


@pytest.fixture(autouse=True)
def _in_tmp(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
"""
SYSPATH = """
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
for folder in (ROOT / "src", ROOT):
    if folder.is_dir() and str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
"""
WARN = """
import warnings

import pytest


@pytest.fixture
def no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def pytest_warning_recorded(warning_message, when, nodeid, location):
    if "@PKG@" in str(warning_message.filename):
        print(f"warning in {nodeid or when}: {warning_message.message}")
"""
LOGFILE = """
import json
import os

_durations = {}


def pytest_runtest_logreport(report):
    if report.when == "call":
        _durations[report.nodeid] = round(report.duration, 4)


def pytest_unconfigure(config):
    target = os.environ.get("@UP@_DURATIONS")
    if target:
        with open(target, "w", encoding="utf-8") as file:
            json.dump(_durations, file, indent=1)
"""
GENERATED = """
def pytest_generate_tests(metafunc):
    \"\"\"Tests that ask for `each_size` run for all sizes.\"\"\"
    if "each_size" in metafunc.fixturenames:
        metafunc.parametrize("each_size", [0, 1, 2, @N@])
"""
DOCTEST = """
import pytest


@pytest.fixture(autouse=True)
def _doctest_names(doctest_namespace):
    import @PKG@

    doctest_namespace["@PKG@"] = @PKG@
"""
RESOURCES = """
import gc
import threading

import pytest


@pytest.fixture
def no_thread_left():
    before = set(threading.enumerate())
    yield
    gc.collect()
    left = [thread.name for thread in threading.enumerate() if thread not in before and not thread.daemon]
    assert not left, f"threads left behind: {left}"
"""
KINDS: tuple[tuple[str, Kind], ...] = (
    ("conftest-report-header", conftest(HEADER)),
    ("conftest-runslow", conftest(SLOW)),
    ("conftest-makereport-info", conftest(MAKEREPORT)),
    ("conftest-summary", conftest(SUMMARY)),
    ("conftest-assertrepr", conftest(ASSERTREPR)),
    ("conftest-order", conftest(ORDER)),
    ("conftest-seed-autouse", conftest(AUTOUSE)),
    ("conftest-src-path", conftest(SYSPATH)),
    ("conftest-warnings", conftest(WARN)),
    ("conftest-durations", conftest(LOGFILE)),
    ("conftest-generate", conftest(GENERATED)),
    ("conftest-doctest-names", conftest(DOCTEST)),
    ("conftest-threads", conftest(RESOURCES)),
)
