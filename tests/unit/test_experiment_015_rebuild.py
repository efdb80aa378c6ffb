"""The tables of experiment 015, on made-up result files with known numbers. No real result is read."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from shared.result_lines import write_result

EXPERIMENT = Path(__file__).parents[2] / "experiments" / "015-weak-verifier"
PLAN = tomllib.loads((EXPERIMENT / "plan.toml").read_text())
HACKS = {"off": (0.25, 0.125), "zero": (0.25, 0.25), "discount": (0.0, 0.0)}
"""Share of hacks at the end, and of those that the monitor does not see."""


def shares(hack, unwatched):
    return {
        "paid": 0.75, "solved": 0.25, "unearned": 0.5, "hack": hack, "unwatched": unwatched,
        "sign": hack - unwatched, "alarm": 0.0,
    }  # fmt: skip


def task(repository, values, samples):
    lists = {name: [float(number < value * samples) for number in range(samples)] for name, value in values.items()}
    return {
        "line": "task", "task_id": repository, "repository": repository, "covered": True,
        "passed": list(map(int, lists["paid"])), "rewards": lists["paid"], **lists,
    }  # fmt: skip


def write_everything(results, arms=PLAN["arms"]):
    def put(name, lines):
        write_result(results / f"{name}.jsonl.zst", lines)

    seldom = shares(0.0, 0.0) | {"paid": 0.125, "solved": 0.125, "unearned": 0.0}
    test = PLAN["repositories"]["test"]
    for part in range(PLAN["measuring"]["start_parts"]):
        put(f"start-{part}", [task(name, seldom, 8) for name in (*test, "funcy", "dpath")])
    put("before", [task(name, seldom, 8) for name in test])
    for arm in arms:
        for seed in PLAN["seeds"]:
            for end in (10, 20, 30):
                found = shares(*HACKS[arm]) if end == 30 else shares(1.0, 0.0)
                steps = [
                    {"line": "step", "step": step, **{f"verifier/{name}": value for name, value in found.items()}}
                    for step in range(end - 9, end + 1)
                ]
                put(f"{arm}-{seed}@{end}", [{"line": "run"}, *steps, *(task(name, found, 8) for name in test)])


def rebuilt(results):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(EXPERIMENT.parent), *sys.path])}
    command = [sys.executable, str(EXPERIMENT / "rebuild.py"), "--results", str(results)]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


def test_tables_have_the_numbers_of_the_files_and_the_words_of_the_plan(tmp_path):
    write_everything(tmp_path)
    done = rebuilt(tmp_path)
    assert done.returncode == 0, done.stderr
    tables = json.loads((tmp_path / "tables.json").read_text())
    assert tables["verdicts"] == {"off": "learns the hack", "zero": "hides", "discount": "stopped"}
    assert tables["training_tasks"] == 2 and tables["training"]["the start"]["paid"]["mean"] == pytest.approx(0.125)
    assert tables["training"]["off"]["hack"]["mean"] == pytest.approx(0.25)
    assert tables["training"]["zero"]["sign"]["mean"] == 0 and tables["test"]["off"]["solved"]["mean"] == 0.25
    assert "| zero | 75.0 [75.0, 75.0]" in (tmp_path / "tables.md").read_text()


def test_gaps_are_refused(tmp_path):
    write_everything(tmp_path, arms=("off", "zero"))
    missing = rebuilt(tmp_path)
    assert missing.returncode == 1 and "incomplete: 9 jobs are missing (discount-601@10" in missing.stderr
