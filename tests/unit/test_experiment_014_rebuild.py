"""The registered analysis of experiment 014, on made-up result files with known numbers. No real result is read."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from shared.result_lines import write_result

EXPERIMENT = Path(__file__).parents[2] / "experiments" / "014-real-code"
PLAN = tomllib.loads((EXPERIMENT / "plan.toml").read_text())
TEST = PLAN["repositories"]["test"]
GAIN = {"grpo": 4, "sdpo": 6, "sham": 6, "imitation": 3}
"""Attempts of 16 that pass at the end where 2 passed at the start."""


def task(repository, passed, of, number=0, **more):
    solved = [1] * passed + [0] * (of - passed)
    return {
        "line": "task", "task_id": f"{repository}-{number}", "repository": repository, "covered": True,
        "generator": "feature_deletion", "passed": solved, "rewards": solved, **more,
    }  # fmt: skip


def write_everything(results, arms=PLAN["arms"], chained=True):
    every = [*TEST, *PLAN["repositories"]["validation"], "funcy"]

    def put(name, lines):
        write_result(results / f"{name}.jsonl.zst", lines)

    for part in range(4):
        put(f"start-{part}", [task(name, int(part == 0), 8, number) for name in every for number in (0, 1)])
    put("before", [task(name, 2, 16, number) for name in TEST for number in (0, 1)])
    put("memory", [task(name, 0, 8, number, likeness=[1.0 - number / 2]) for name in TEST for number in (0, 1)])
    for arm in PLAN["tuning"]["arms"]:
        for rate in PLAN["tuning"]["rates"]:
            put(f"tune-{arm}-{rate:.0e}-500@10", [task("isodate", 2, 8)])
    for arm in arms:
        for seed in PLAN["seeds"]:
            for step in (10, 20, 30):
                before = f"{arm}{seed}@{step - 10}" if step > 10 and chained else None
                head = {"line": "run", "adapters_before": before, "adapters_after": f"{arm}{seed}@{step}"}
                tasks = [task(name, GAIN[arm] + (seed + number) % 2, 16, number) for name in TEST for number in (0, 1)]
                line = {"line": "step", "step": step, "reward": 0.5, "step_time": 14.0, "wall_s": 14.0 * step}
                put(f"{arm}-{seed}@{step}", [head, line, *tasks])


def rebuilt(results):
    import os

    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(EXPERIMENT.parent), *sys.path])}
    command = [sys.executable, str(EXPERIMENT / "rebuild.py"), "--results", str(results)]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


def test_tables_have_the_numbers_of_the_files(tmp_path):
    write_everything(tmp_path)
    done = rebuilt(tmp_path)
    assert done.returncode == 0, done.stderr
    tables = json.loads((tmp_path / "tables.json").read_text())
    tests = {test["name"]: test for test in tables["tests"]}
    assert tests["H1"]["two_way"]["mean"] == pytest.approx(2.5 / 16) and tests["H1"]["p"] == pytest.approx(2 / 256)
    assert tests["H1"]["p_holm"] == pytest.approx(4 * 2 / 256) and tests["H1"]["holds"]
    assert tests["H2"]["two_way"]["mean"] == pytest.approx(2 / 16)
    assert tests["H3"]["two_way"]["mean"] == 0 and tests["H3"]["p"] == 1 and not tests["H3"]["holds"]
    assert tests["H4"]["two_way"]["mean"] == pytest.approx(-1 / 16)
    assert (tables["open_tasks"], tables["test_tasks"], tables["remembered_tasks"]) == (16, 16, 8)
    assert tables["means_over_steps"]["grpo"] == {"reward": 0.5, "step_time": 14.0}
    assert tables["trained_on"] == {"middle": 2}
    assert tables["curves"]["grpo"]["20"]["mean"] == pytest.approx(4.5 / 16)
    assert tables["passes"]["middle"]["the start"]["pass@1"]["mean"] == pytest.approx(2 / 16)
    assert tables["rates"] == {"grpo": 1e-4, "sdpo": 1e-4, "sham": 1e-4, "imitation": 1e-4}
    assert "| H2 | sdpo − grpo | +0.125" in (tmp_path / "tables.md").read_text()


def test_gaps_and_broken_chains_are_refused(tmp_path):
    write_everything(tmp_path / "gaps", arms=("grpo", "sdpo", "sham"))
    missing = rebuilt(tmp_path / "gaps")
    assert missing.returncode == 1 and "incomplete: 12 jobs are missing (imitation-501@10" in missing.stderr
    write_everything(tmp_path / "broken", chained=False)
    broken = rebuilt(tmp_path / "broken")
    assert broken.returncode == 1 and "grpo-501@20 did not begin with the adapters" in broken.stderr
