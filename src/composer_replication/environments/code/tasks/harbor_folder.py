"""The files that make a task folder a Harbor task: `task.toml`, `Dockerfile`, `test.sh`, `solve.sh`.

Harbor builds the image from `environment/`, lets the agent work in it, then mounts `tests/` and runs `test.sh`, which
writes the reward. The tests then run in the container that the agent has used: where the policy may be hostile prefer
our own grader, which starts from the clean tree.
"""

from __future__ import annotations

import json
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from shlex import quote

from .allowed_paths import STEERING_FOLDERS, STEERING_NAMES, STEERING_SUFFIXES, package_folders
from .loading import TEST_PATTERNS
from .task import CodeTask
from .test_ids import file_of
from .trees import files_of

WORKDIR = "/work"
AGENT_TIMEOUT_S = 1800.0
PYTHON_IMAGE = "python:3.11-slim"
DIFFICULTIES = ((20, "easy"), (80, "medium"))

TEST_SH = f"""#!/bin/sh
# Writes the reward, a number from 0 to 1, for Harbor.
logs="${{LOGS_DIR:-/logs/verifier}}"
tests="$(cd "$(dirname "$0")" && pwd)"
mkdir -p "$logs"
export PYTHONHASHSEED=0
python3 -s -P -X utf8 "$tests/verify.py" "${{REPO_DIR:-{WORKDIR}}}" "$tests" > "$logs/reward.txt" ||
    echo 0 > "$logs/reward.txt"
"""

SOLVE_SH = f"""#!/bin/sh
# Puts the solution in place.
set -e
gold="$(cd "$(dirname "$0")" && pwd)/gold"
cp -R "$gold/." "${{REPO_DIR:-{WORKDIR}}}/"
"""


def write_harbor_files(folder: Path, code_task: CodeTask) -> None:
    _write(folder / "instruction.md", code_task.task.statement.rstrip() + "\n")
    _write(folder / "task.toml", _task_toml(code_task))
    _write(folder / "environment" / "Dockerfile", _dockerfile(code_task))
    _write(folder / "solution" / "solve.sh", SOLVE_SH, executable=True)


def write_verifier(folder: Path, code_task: CodeTask) -> None:
    """`tests/` but the overlay, when the tree is there; its hash is part of the task's identity, so it is written
    before the record."""
    expected = {
        "grader": code_task.grader,
        "hidden": code_task.hidden_tests,
        "units": code_task.units or [[test] for test in code_task.hidden_tests],
        "guards": code_task.guard_tests,
        "files": sorted({file_of(test) for test in (*code_task.hidden_tests, *code_task.guard_tests)}),
        "source_roots": code_task.source_roots,
        "plugins": code_task.pytest_plugins,
        "options": code_task.pytest_options,
        "editable": code_task.editable,
        "package_folders": package_folders(code_task),
        "start": list(files_of(folder / "environment" / "repo")),
        "test_names": (*TEST_PATTERNS, "conftest.py"),
        "steering_names": sorted(STEERING_NAMES),
        "steering_suffixes": STEERING_SUFFIXES,
        "steering_folders": sorted(STEERING_FOLDERS),
    }
    _write(folder / "tests" / "expected.json", json.dumps(expected, indent=1) + "\n")
    _write(folder / "tests" / "test.sh", TEST_SH, executable=True)
    verifier = Path(__file__).with_name("harbor_verify.py").read_text(encoding="utf-8")
    _write(folder / "tests" / "verify.py", verifier)


def _task_toml(code_task: CodeTask) -> str:
    lines = code_task.task.difficulty.get("lines", 0)
    difficulty = next((name for limit, name in DIFFICULTIES if lines <= limit), "hard")
    tags = [code_task.generator, code_task.mode, code_task.grain, code_task.level, *code_task.tags]
    values = {
        "metadata": {
            "author_name": "composer-replication",
            "difficulty": difficulty,
            "category": "programming",
            "tags": tags,
            "task_id": code_task.task.task_id,
            "repository": code_task.repository,
        },
        "verifier": {"timeout_sec": max(120.0, round(20 * code_task.seconds_per_run, 1))},
        "agent": {"timeout_sec": AGENT_TIMEOUT_S},
        "environment": {
            "build_timeout_sec": 600.0,
            "cpus": 1,
            "memory_mb": 2048,
            "storage_mb": 4096,
            "network_mode": "no-network",
            "allow_internet": False,
        },
    }
    text = 'version = "1.0"\n'
    for section, settings in values.items():
        text += f"\n[{section}]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in settings.items())
    return text


def _dockerfile(code_task: CodeTask) -> str:
    pinned = " ".join(quote(_pinned(name)) for name in code_task.distributions)
    roots = ":".join(WORKDIR if root == "." else f"{WORKDIR}/{root}" for root in code_task.source_roots)
    return (
        f"FROM {PYTHON_IMAGE}\n"
        f"RUN pip install --no-cache-dir {pinned}\n"
        f"COPY repo {WORKDIR}\n"
        f"WORKDIR {WORKDIR}\n"
        f"ENV PYTHONPATH={roots} PYTHONDONTWRITEBYTECODE=1\n"
    )


def _pinned(name: str) -> str:
    try:
        return f"{name}=={version(name)}"
    except PackageNotFoundError:
        return name


def _write(path: Path, text: str, executable: bool = False) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    if executable:
        path.chmod(0o755)
