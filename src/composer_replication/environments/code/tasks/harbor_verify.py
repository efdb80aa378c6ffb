"""Copied into a task's `tests/` folder as `verify.py`: prints the reward of the repository at the first argument.

Needs the standard library and pytest. Works on a copy: new files that are no part of a solution go, trusted tests go on
top, and only tests that report `passed` count. With mutants, the tests in the repository must pass on its true code,
and the reward is the share of mutants that make one fail. It shares a container with the agent, so it is weaker than
the grader of recompose. Not noticed: changes to files that were there and that a solution may not touch.
"""

from __future__ import annotations

import json
import os
import selectors
import shutil
import signal
import sys
import tempfile
import time
from fnmatch import fnmatchcase
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

STEERING = ("conftest.py", "sitecustomize.py", "usercustomize.py")
TIMEOUT_S = 600


def main(repository: Path, tests: Path, scratch: Path, expected: dict[str, Any]) -> float:
    """`scratch` is a folder of our own; compiled files in it serve the next tree at the same place."""
    tree = scratch / "tree"
    prepare(repository, tree, tests / "overlay", expected)
    if expected["grader"] == "mutants":
        return mutants_killed(tree, tests, expected)
    passed = run(tree, expected, expected["files"])
    if not set(expected["guards"]) <= passed:
        return 0.0
    units = expected["units"]
    return round(sum(set(unit) <= passed for unit in units) / len(units), 6) if units else 0.0


def read_expected(tests: Path) -> dict[str, Any]:
    return json.loads((tests / "expected.json").read_text(encoding="utf-8"))


def prepare(repository: Path, tree: Path, overlay: Path, expected: dict[str, Any]) -> None:
    """What lies there already and is the same stays."""
    trusted = files_of(overlay)
    known = set(expected["start"])
    wanted = {
        name: path
        for name, path in files_of(repository).items()
        if (name in known or may_be_new(name, expected)) and not (trusted and path.name in STEERING)
    } | trusted
    there = files_of(tree)
    same = {name for name in wanted.keys() & there.keys() if seen(there[name]) == seen(wanted[name])}
    for parent, folders, names in os.walk(tree, topdown=False):
        links = [name for name in folders if Path(parent, name).is_symlink()]
        for path in (Path(parent, name) for name in (*links, *names)):
            if path.relative_to(tree).as_posix() not in same:
                path.unlink()
        if not os.listdir(parent):
            os.rmdir(parent)
    for name in wanted.keys() - same:
        target = tree / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(wanted[name], target)


def files_of(folder: Path) -> dict[str, Path]:
    """By name, without what is compiled, what steers the interpreter, and links to folders."""
    found: dict[str, Path] = {}
    for parent, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in (".git", "__pycache__")]
        for name in names:
            path = Path(parent, name)
            if path.suffix not in (".pyc", ".pth") and path.is_file():
                found[path.relative_to(folder).as_posix()] = path
    return found


def seen(path: Path) -> tuple[bool, int, int]:
    state = path.lstat()
    return path.is_symlink(), state.st_size, state.st_mtime_ns


def may_be_new(name: str, expected: dict[str, Any]) -> bool:
    """Whether a file that was not there at the start may be a part of a solution."""
    *folders, last = name.casefold().split("/")
    steers = (
        last in expected["steering_names"]
        or last.endswith(tuple(expected["steering_suffixes"]))
        or any(part in expected["steering_folders"] or part.endswith((".dist-info", ".egg-info")) for part in folders)
    )
    named = any(fnmatchcase(name, pattern) for pattern in expected["editable"])
    if steers or expected["grader"] == "mutants":
        return named and not steers
    is_test = bool({"tests", "test"} & set(name.split("/")[:-1])) or any(
        fnmatchcase(name.rpartition("/")[2], pattern) for pattern in expected["test_names"]
    )
    return (named or name.startswith(tuple(expected["package_folders"]))) and not is_test


def mutants_killed(tree: Path, tests: Path, expected: dict[str, Any]) -> float:
    patterns = expected["editable"]
    written = [path.relative_to(tree).as_posix() for path in sorted(tree.rglob("*.py"))]
    own = [path for path in written if any(fnmatchcase(path, pattern) for pattern in patterns)]
    green = run(tree, expected, own)
    mutants = [json.loads(path.read_text(encoding="utf-8")) for path in sorted((tests / "mutants").glob("*.json"))]
    killed = 0
    for mutant in mutants if green else []:
        target = tree / mutant["path"]
        original = target.read_bytes()
        target.write_text(mutant["text"], encoding="utf-8")
        killed += not green <= run(tree, expected, own)
        target.write_bytes(original)
    return round(killed / len(mutants), 6) if mutants else 0.0


def run(tree: Path, expected: dict[str, Any], files: list[str]) -> set[str]:
    """Ids that passed, in a process of its own."""
    present = [path for path in files if (tree / path).is_file()]
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            run_here(tree, expected, present, writing)
        finally:
            os._exit(1)
    os.close(writing)
    text = read_until(reading, time.monotonic() + TIMEOUT_S)
    for kill in (lambda: os.killpg(child, signal.SIGKILL), lambda: os.kill(child, signal.SIGKILL)):
        try:
            kill()
        except ProcessLookupError:
            continue
    os.waitpid(child, 0)
    try:
        seen: dict[str, str] = json.loads(text or b"{}")
        return {test for test, outcome in seen.items() if outcome == "passed"}
    except (ValueError, AttributeError, RecursionError):
        return set()


def run_here(tree: Path, expected: dict[str, Any], files: list[str], records: int) -> None:
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nothing, standard)
    home = tempfile.mkdtemp(dir=tree.parent)
    roots = [os.path.normpath(tree / root) for root in expected["source_roots"]]
    kept = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH", "PYTHONHASHSEED") if name in os.environ}
    os.environ.clear()
    os.environ |= {**kept, "PYTHONPATH": os.pathsep.join(roots), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    os.environ |= {"LANG": "C.UTF-8", "HOME": home, "PYTHONDONTWRITEBYTECODE": "1"}
    sys.path[:0] = roots
    # A mutant of the same size in the same second would be taken for the code that was compiled before it.
    sys.dont_write_bytecode = expected["grader"] == "mutants"
    sys.pycache_prefix = str(tree.parent / "compiled")
    sys.argv = ["pytest"]
    os.chdir(tree)
    ini = Path(home, "pytest.ini")
    ini.write_text("[pytest]\n", encoding="utf-8")
    argv = [
        "-q",
        "--tb=no",
        "-c",
        str(ini),
        "--rootdir",
        str(tree),
        "--confcutdir",
        str(tree),
        "-p",
        "no:cacheprovider",
    ]
    argv += ["--continue-on-collection-errors", *(part for name in expected["plugins"] for part in ("-p", name))]
    argv += expected["options"]
    counted = {*expected["hidden"], *expected["guards"]} if expected["grader"] == "tests" else set[str]()
    recorder = OutcomesOfTests(counted)
    pytest.main([*argv, *files], plugins=[recorder])
    with os.fdopen(records, "w", encoding="utf-8") as out:
        out.write(json.dumps(recorder.seen) + "\n")
    os._exit(0)


class OutcomesOfTests:
    def __init__(self, counted: set[str]) -> None:
        """`counted`: ids to run; empty: all."""
        self.counted = counted
        self.functions = {test.partition("::")[2].partition("[")[0].rpartition("::")[2] for test in counted}
        self.seen: dict[str, str] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_pycollect_makeitem(self, name: str, obj: object) -> list[pytest.Item] | None:
        return [] if self.counted and name not in self.functions and type(obj) is FunctionType else None

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        if self.counted:
            items[:] = [item for item in items if item.nodeid in self.counted]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        outcome = "xfailed" if hasattr(report, "wasxfail") else report.outcome
        if outcome != "passed" or report.when == "call":
            before = self.seen.get(report.nodeid, "passed")
            self.seen[report.nodeid] = outcome if before == "passed" else before


def read_until(pipe: int, deadline: float) -> bytes:
    """The line, or what there is of it at the deadline."""
    text = b""
    # Not `select`, which takes no descriptor above 1,023.
    with os.fdopen(pipe, "rb", buffering=0) as records, selectors.DefaultSelector() as waiting:
        waiting.register(records, selectors.EVENT_READ)
        while not text.endswith(b"\n") and waiting.select(max(0.0, deadline - time.monotonic())):
            part = os.read(pipe, 1 << 16)
            if not part:
                break
            text += part
    return text


if __name__ == "__main__":
    given = Path(sys.argv[2]).resolve()
    with tempfile.TemporaryDirectory() as folder:
        print(main(Path(sys.argv[1]).resolve(), given, Path(folder), read_expected(given)))
