"""Experiment 009 on the runner of 004, with a tiny policy: arms of several lengths, and a start that got lost."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from shared.result_lines import read_result, write_result

SLICE = Path(__file__).parents[2] / "experiments" / "009-rates" / "slice.sh"
PLAN = Path(__file__).with_name("experiment_009.toml")


def run(folder):
    """By `slice.sh`, with no earlier results."""
    own = {"WORK": str(folder / "work"), "RESULTS": str(folder / "results"), "PYTHON": sys.executable}
    (folder / "out").mkdir()
    done = subprocess.run(
        ["bash", str(SLICE), str(folder / "earlier"), str(folder / "out"), "500", "1", "--plan", str(PLAN)],
        capture_output=True, text=True, check=False, env=os.environ | own | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert not done.returncode, done.stdout + done.stderr


def lines(results, name, kind):
    return [line for line in read_result(results / f"{name}-1.jsonl.zst") if line["line"] == kind]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("009")
    run(folder)
    return folder


def test_a_shorter_arm_is_the_beginning_of_a_longer_one(folder):
    results = folder / "results" / "low"
    short, long = (lines(results, arm, "step") for arm in ("short", "long"))
    assert [line["step"] for line in long] == [1, 2, 3, 4]
    measured = ("reward", "grad_norm", "completions/mean_length")
    assert [[line[key] for key in measured] for line in short] == [[line[key] for key in measured] for line in long[:2]]
    (header,) = lines(results, "short", "run")
    assert header["last_step"] == 2 and header["config"]["training"]["steps"] == 4
    (point,) = [line for line in lines(results, "long", "curve") if line["step"] == 2]
    ended = [sum(line["rewards"]) for line in lines(results, "short", "task")]
    assert point["solved"] == ended and point["samples"] == 2


def test_the_start_is_also_measured_with_a_reminder_before_every_turn(folder):
    results = folder / "results" / "low"
    plain = [line["task_id"] for line in lines(results, "start", "task")]
    reminded = lines(results, "start", "reminded_task")
    for condition in ("hint", "sham"):
        assert [line["task_id"] for line in reminded if line["condition"] == condition] == plain
    assert {line["condition"] for line in lines(results, "start", "reminded")} == {"hint", "sham"}


def test_a_lost_start_is_made_again_and_sets_aside_only_arms_of_another_one(folder, tmp_path):
    shutil.copytree(folder / "results", tmp_path / "results")
    results = tmp_path / "results" / "low"
    (before,) = lines(results, "start", "start")
    kept = (results / "sham-1.jsonl.zst").stat().st_mtime_ns
    other = list(read_result(results / "long-1.jsonl.zst"))
    write_result(results / "long-1.jsonl.zst", [{**other[0], "start_sha256": "0" * 16}, *other[1:]])
    (results / "short-1.jsonl.zst").unlink()
    run(tmp_path)
    assert lines(results, "start", "start") == [before], "the same bits"
    assert (results / "sham-1.jsonl.zst").stat().st_mtime_ns == kept
    assert [path.name for path in (results / "orphans").iterdir()] == ["long-1.jsonl.zst"]
    for arm in ("long", "short"):
        (header,) = lines(results, arm, "run")
        assert header["start_sha256"] == before["start_sha256"]
