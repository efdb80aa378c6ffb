"""Experiment 009 on the runner of 004, with a tiny policy: arms of several lengths, and a start that got lost."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from shared.result_lines import read_result, write_result
from tests.experiment_runner import work_off

SLICE = Path(__file__).parents[2] / "experiments" / "009-rates" / "slice.sh"
PLAN = Path(__file__).with_name("experiment_009.toml")


def run_slice(folder, *words):
    """By `slice.sh`, in processes of its own, with no earlier results."""
    own = {"WORK": str(folder / "work"), "RESULTS": str(folder / "results"), "PYTHON": sys.executable}
    (folder / "out").mkdir()
    done = subprocess.run(
        ["bash", str(SLICE), str(folder / "earlier"), str(folder / "out"), "500", "1", "--plan", str(PLAN), *words],
        capture_output=True, text=True, check=False, env=os.environ | own | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert not done.returncode, done.stdout + done.stderr


def lines(results, name, kind):
    return [line for line in read_result(results / f"{name}-1.jsonl.zst") if line["line"] == kind]


@pytest.fixture(scope="module")
def slices(tmp_path_factory):
    """Results of a machine that made a start and one arm, and of one that got these alone, with an arm of another start
    among them."""
    first, second = (tmp_path_factory.mktemp("009") for _ in range(2))
    run_slice(first, "--only", "low/sham-1")
    shutil.copytree(first / "results", second / "results")
    header, *other = read_result(second / "results/low/sham-1.jsonl.zst")
    write_result(second / "results/low/long-1.jsonl.zst", [{**header, "start_sha256": "0" * 16}, *other])
    said = work_off(SLICE.parent, "--plan", PLAN, "--work", second / "work", "--results", second / "results")
    assert "4 of 4 jobs done, exit codes" in said
    return first / "results/low", second / "results/low"


@pytest.fixture
def results(slices):
    return slices[1]


def test_a_shorter_arm_is_the_beginning_of_a_longer_one(results):
    short, long = (lines(results, arm, "step") for arm in ("short", "long"))
    assert [line["step"] for line in long] == [1, 2, 3, 4]
    measured = ("reward", "grad_norm", "completions/mean_length")
    assert [[line[key] for key in measured] for line in short] == [[line[key] for key in measured] for line in long[:2]]
    (header,) = lines(results, "short", "run")
    assert header["last_step"] == 2 and header["config"]["training"]["steps"] == 4
    (point,) = [line for line in lines(results, "long", "curve") if line["step"] == 2]
    ended = [sum(line["rewards"]) for line in lines(results, "short", "task")]
    assert point["solved"] == ended and point["samples"] == 2


def test_the_start_is_also_measured_with_a_reminder_before_every_turn(results):
    plain = [line["task_id"] for line in lines(results, "start", "task")]
    reminded = lines(results, "start", "reminded_task")
    for condition in ("hint", "sham"):
        assert [line["task_id"] for line in reminded if line["condition"] == condition] == plain
    assert {line["condition"] for line in lines(results, "start", "reminded")} == {"hint", "sham"}


def test_a_lost_start_is_made_again_and_sets_aside_only_arms_of_another_one(slices):
    earlier, results = slices
    (before,) = lines(earlier, "start", "start")
    assert lines(results, "start", "start") == [before], "the same bits"
    kept = [(folder / "sham-1.jsonl.zst").stat().st_mtime_ns for folder in slices]
    assert kept[0] == kept[1]
    assert [path.name for path in (results / "orphans").iterdir()] == ["long-1.jsonl.zst"]
    for arm in ("long", "short"):
        (header,) = lines(results, arm, "run")
        assert header["start_sha256"] == before["start_sha256"]
