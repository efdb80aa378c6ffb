"""Copied into a task's `tests/` folder as `verify.py`: prints the reward of the repository at the first argument.

Needs the standard library and pytest. Works on a copy: trusted tests go on top of it, files that could steer the test
runner go, and only tests that report `passed` count. With mutants, the tests in the repository must pass on its
true code, and the reward is the share of mutants that make one fail. It shares a container with the agent, so it is
weaker than the grader of recompose.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

STEERING = ("conftest.py", "sitecustomize.py", "usercustomize.py")
TIMEOUT_S = 600

PLUGIN = """
import json, os
OUT = os.fdopen(int(os.environ.pop("RECORDS")), "w")
seen = {}
def pytest_runtest_logreport(report):
    outcome = "xfailed" if hasattr(report, "wasxfail") else report.outcome
    if outcome != "passed" or report.when == "call":
        seen[report.nodeid] = outcome if seen.get(report.nodeid, "passed") == "passed" else seen[report.nodeid]
def pytest_sessionfinish():
    OUT.write(json.dumps(seen))
    OUT.flush()
"""


def main(repository: Path, tests: Path) -> float:
    expected = json.loads((tests / "expected.json").read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as scratch:
        tree = Path(scratch, "tree")
        shutil.copytree(repository, tree, ignore=shutil.ignore_patterns(".git", "__pycache__", "*.pyc", "*.pth"))
        overlay = tests / "overlay"
        for path in [path for name in STEERING for path in tree.rglob(name)]:
            if not fnmatchcase(path.relative_to(tree).as_posix(), "tests/*") or overlay.exists():
                path.unlink()
        if overlay.exists():
            shutil.copytree(overlay, tree, dirs_exist_ok=True)
        if expected["grader"] == "mutants":
            return mutants_killed(tree, Path(scratch), tests, expected)
        passed = run(tree, Path(scratch), expected, expected["files"])
    if not set(expected["guards"]) <= passed:
        return 0.0
    hidden = set(expected["hidden"])
    return round(len(hidden & passed) / len(hidden), 6) if hidden else 0.0


def mutants_killed(tree: Path, scratch: Path, tests: Path, expected: dict[str, Any]) -> float:
    patterns = expected["editable"]
    written = [path.relative_to(tree).as_posix() for path in sorted(tree.rglob("*.py"))]
    own = [path for path in written if any(fnmatchcase(path, pattern) for pattern in patterns)]
    green = run(tree, scratch, expected, own)
    mutants = [json.loads(path.read_text(encoding="utf-8")) for path in sorted((tests / "mutants").glob("*.json"))]
    killed = 0
    for mutant in mutants if green else []:
        target = tree / mutant["path"]
        original = target.read_bytes()
        target.write_text(mutant["text"], encoding="utf-8")
        killed += not green <= run(tree, scratch, expected, own)
        target.write_bytes(original)
    return round(killed / len(mutants), 6) if mutants else 0.0


def run(tree: Path, scratch: Path, expected: dict[str, Any], files: list[str]) -> set[str]:
    """Ids that passed."""
    (scratch / "recorder_of_results.py").write_text(PLUGIN, encoding="utf-8")
    (scratch / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    reading, writing = os.pipe()
    roots = [str(tree / root) for root in expected["source_roots"]]
    env = {
        "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
        "PYTHONPATH": os.pathsep.join([*roots, str(scratch)]),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "RECORDS": str(writing),
        "LANG": "C.UTF-8",
        "HOME": str(scratch),
    }
    argv = [sys.executable, "-s", "-P", "-m", "pytest", "-q", "--tb=no", "-c", str(scratch / "pytest.ini")]
    argv += ["--rootdir", str(tree), "-p", "no:cacheprovider", "-p", "recorder_of_results"]
    argv += ["--continue-on-collection-errors", *(part for name in expected["plugins"] for part in ("-p", name))]
    present = [path for path in files if (tree / path).is_file()]
    child = subprocess.Popen(  # noqa: S603
        [*argv, *present], cwd=tree, env=env, pass_fds=[writing], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8") as records:
        text = records.read()
    try:
        child.wait(TIMEOUT_S)
    except subprocess.TimeoutExpired:
        child.kill()
    seen: dict[str, str] = json.loads(text or "{}")
    return {test for test, outcome in seen.items() if outcome == "passed"}


if __name__ == "__main__":
    print(main(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()))
