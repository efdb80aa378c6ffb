"""Experiment 008's runner and its tables, with a tiny policy: every kind of job once."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import pytest

from shared.result_lines import SUFFIX, read_result, write_result
from shared.runner.jobs import Experiment, kind_of
from tests.command_line import recompose
from tests.experiment_runner import work_off

FOLDER = Path(__file__).parents[2] / "experiments" / "008-leak"
PLAN = Path(__file__).with_name("experiment_008.toml")


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("008")
    options = ["--plan", PLAN, "--work", folder / "work", "--results", folder / "results"]
    assert "4 of 4 jobs done, exit codes" in work_off(FOLDER, *options)
    return folder / "results" / "tiny"


def lines_of(results, name):
    return list(read_result(results / f"{name}-1.jsonl.zst"))


def test_arms_of_a_seed_share_start_and_first_rollouts(results):
    runs = {arm: lines_of(results, arm) for arm in ("open", "scrubbed", "hard")}
    assert len({lines[0]["start_sha256"] for lines in runs.values()}) == 1
    first = {arm: next(line for line in lines if line["line"] == "step") for arm, lines in runs.items()}
    assert first["open"]["completions/mean_length"] == first["hard"]["completions/mean_length"]
    assert first["open"]["monitor/canary_hit_rate"] == first["hard"]["monitor/canary_hit_rate"]
    assert first["scrubbed"]["monitor/canary_hit_rate"] == 0


def test_a_run_has_its_steps_its_curve_and_both_worlds(results):
    lines = lines_of(results, "hard")
    assert [line["step"] for line in lines if line["line"] == "step"] == [1, 2]
    assert [line["step"] for line in lines if line["line"] == "curve"] == [1]
    assert [line["world"] for line in lines if line["line"] == "final"] == ["open", "scrubbed"]
    by_world = {
        world: [line["task_id"] for line in lines if line["line"] == "task" and line["world"] == world]
        for world in ("open", "scrubbed")
    }
    assert len(by_world["open"]) == 4
    assert by_world["open"] == by_world["scrubbed"]


def test_nothing_is_hit_in_the_scrubbed_world(results):
    for arm in ("start", "open", "scrubbed", "hard"):
        for line in lines_of(results, arm):
            if line["line"] == "task" and line["world"] == "scrubbed":
                assert not any(line["hits"])


def test_the_tables_can_be_made_again(results):
    assert recompose("experiment", "rebuild", FOLDER, "--", "--results", results).returncode == 0
    summary = json.loads((results / "summary.json").read_text())
    assert list(summary) == ["start", "open", "scrubbed", "hard"]
    told = [line for line in lines_of(results, "hard") if line["line"] == "task" and line["world"] == "open"]
    hits = [bool(ways) for line in told for ways in line["hits"]]
    assert summary["hard"]["hits, any"]["mean"] == pytest.approx(sum(hits) / len(hits))
    assert "hard, knows tool" in (results / "table.md").read_text()
    assert (results / "curves.svg").read_text().count("<polyline") >= 9
    assert "<svg" in (results / "ends.svg").read_text()


def test_arms_run_only_where_the_starts_are_as_planned(tmp_path):
    holds = runpy.run_path(str(FOLDER / "gate.py"))["holds"]
    planned = {"success_clear": 0.4, "look_tool": 0.1, "look_file": 0.05, "success_after_hit": 0.9}

    def found(**rates):
        lines = [{"line": "final", "world": world, **planned, **rates} for world in ("open", "scrubbed")]
        write_result(tmp_path / f"start-1{SUFFIX}", lines)
        return holds(tmp_path)

    assert not holds(tmp_path)
    assert found()
    for rates in ({"success_clear": 0.7}, {"look_tool": 0.01}, {"look_file": 0.3}, {"success_after_hit": None}):
        assert not found(**rates)


def test_a_lost_start_is_made_again_where_an_arm_waits_for_it(tmp_path):
    lost, kept = (Experiment(FOLDER, PLAN, tmp_path / name, tmp_path / name, "008") for name in ("lost", "kept"))
    (tmp_path / "kept" / "start-1").mkdir(parents=True)
    for experiment in (lost, kept):
        queue, jobs = kind_of(experiment), kind_of(experiment).jobs_of(experiment)
        for job in jobs[:-1]:
            job.result.parent.mkdir(parents=True, exist_ok=True)
            job.result.touch()
        queue.make_ready(experiment, jobs)
    missing = [[job.name for job in kind_of(one).jobs_of(one) if not job.result.exists()] for one in (lost, kept)]
    assert missing == [["008/start-1", "008/hard-1"], ["008/hard-1"]]
