"""Experiment 004's runner, with a tiny policy: every kind of job once, in two slices."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import zstandard

from tests.experiment_runner import work_off

ROOT = Path(__file__).parents[2]
PLAN = Path(__file__).with_name("experiment_004.toml")


def lines_of(path):
    return [
        json.loads(line) for line in zstandard.ZstdDecompressor().stream_reader(path.open("rb")).read().splitlines()
    ]


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("004")

    options = ["--plan", PLAN, "--work", folder / "work", "--results", folder / "results", "--slice-s", 500]

    def run(*only):
        return work_off(ROOT / "experiments/004-ab", *options, "--only", *only)

    assert "next: none" in run("main/grpo-1")
    before = (folder / "results" / "main" / "start-1.jsonl.zst").stat().st_mtime_ns
    assert "11 of 11 jobs done, exit codes" in run("*")
    assert (folder / "results" / "main" / "start-1.jsonl.zst").stat().st_mtime_ns == before
    return folder / "results" / "main"


def test_arms_of_a_seed_share_start_and_tasks(results):
    runs = {
        arm: lines_of(results / f"{arm}-1.jsonl.zst") for arm in ("grpo", "sdpo", "sham", "trdpo", "sft", "penalty")
    }
    assert len({lines[0]["start_sha256"] for lines in runs.values()}) == 1
    tasks = {arm: [line["task_id"] for line in lines if line["line"] == "task"] for arm, lines in runs.items()}
    assert all(own == tasks["grpo"] for own in tasks.values())
    first = {arm: next(line for line in lines if line["line"] == "step") for arm, lines in runs.items()}
    rollouts = {arm: line["completions/mean_length"] for arm, line in first.items()}
    assert len(set(rollouts.values())) == 1, "the first step's rollouts come before any difference"


def test_a_run_has_its_curve_its_end_and_its_costs(results):
    lines = lines_of(results / "sdpo-1.jsonl.zst")
    assert [line["step"] for line in lines if line["line"] == "step"] == [1, 2]
    assert [line["step"] for line in lines if line["line"] == "curve"] == [1]
    assert {line["split"] for line in lines if line["line"] == "final"} == {"heldout", "renames", "compositions"}
    assert {"train_s", "measure_s", "config", "device"} <= lines[0].keys()
    assert {len(line["rewards"]) for line in lines if line["line"] == "task" and line["split"] == "heldout"} == {2}


def test_channel_2_leaves_alone_what_the_probe_did_not_find_useful(results):
    gaps = {
        line["kind"] for line in lines_of(results / "start-1.jsonl.zst") if line["line"] == "gap" and line["useful"]
    }
    off = lines_of(results / "sdpo-1.jsonl.zst")[0]["config"]["channels"][1]["kinds_off"]
    assert not gaps & set(off)
    assert "json_decode" in off, "a start of 12 steps follows no hint"
