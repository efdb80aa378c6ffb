"""The registered analysis of experiment 009, on made-up result files with known numbers. No real result is read."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
import tomllib
from itertools import pairwise
from pathlib import Path

import pytest

from composer_replication.errors import RecomposeError
from shared.analysis.registered import at_best_rate, best_rates
from shared.analysis.trained import read_results
from shared.crossing import first_crossing, not_there_yet
from shared.result_lines import write_result
from shared.runner.plan import read_plan
from tests.own_modules import modules_of

ROOT = Path(__file__).parents[2]
EXPERIMENT = ROOT / "experiments" / "009-rates"
PLAN = tomllib.loads((EXPERIMENT / "plan.toml").read_text())
SEEDS = PLAN["regimes"]["low-strong"]["seeds"]
ARMS = PLAN["regimes"]["low-strong"]["arms"]
TASKS = [f"toolbox/heldout/{number}" for number in range(16)]
RISE = {"5e-6": 1, "1e-5": 2, "2e-5": 4, "4e-5": 3}
"""Sixteenths of success per ten steps."""


@pytest.fixture(scope="module", autouse=True)
def _path():
    with modules_of(EXPERIMENT):
        yield


def height(arm, seed, step):
    """Success in sixteenths: higher rates rise faster, channel 2 by one more, and every other seed begins higher."""
    kind, _, rate = arm.partition("-")
    return min(14, 2 + seed % 2 + (RISE[rate] + (kind == "sdpo")) * step // 10)


def solved(sixteenths, samples):
    return [samples * (number < sixteenths) for number in range(16)]


def task_lines(kind, sixteenths, **about):
    counts = solved(sixteenths, 8)
    return [
        {"line": kind, "task_id": task, "rewards": [1] * count + [0] * (8 - count), "split": "heldout", **about}
        for task, count in zip(TASKS, counts, strict=True)
    ]


def start_lines(seed):
    begin = height("grpo-5e-6", seed, 0)
    hinted, sham = (
        task_lines("reminded_task", begin + more, condition=name) for name, more in (("hint", 7), ("sham", 6))
    )
    return [{"line": "start", "seed": seed, "start_sha256": f"of {seed}"}, *task_lines("task", begin), *hinted, *sham]


def run_lines(arm, seed, heights=height, *, until=None, **about):
    """`until`: a watchdog ended the run there."""
    last = PLAN["last_steps"].get(arm, 80)
    planned = {int(step): samples for step, samples in PLAN["measuring"]["curve"].items()}
    trained = range(1, (until or last) + 1)
    return [
        {"line": "run", "arm": arm, "seed": seed, "last_step": last, "start_sha256": f"of {seed}", "train_s": 9.5,
         "stopped": f"ended at {until}" if until else None, **about},
        *({"line": "step", "step": step, "num_tokens": 1000.0 * step, "grad_norm": 0.5} for step in trained),
        *({"line": "curve", "step": step, "samples": samples, "solved": solved(heights(arm, seed, step), samples)}
          for step, samples in planned.items() if step < (until or last)),
        {"line": "final", "split": "heldout", "errors_per_turn": 0.25, "entropy": 0.5, "kl_to_start": 0.125},
        *task_lines("task", heights(arm, seed, until or last)),
    ]  # fmt: skip


def write_queue(results, heights=height):
    for seed in SEEDS:
        write_result(results / f"low-strong/start-{seed}.jsonl.zst", start_lines(seed))
        for arm in ARMS:
            write_result(results / f"low-strong/{arm}-{seed}.jsonl.zst", run_lines(arm, seed, heights))
    return results


def read(results):
    return read_results(read_plan(EXPERIMENT / "plan.toml"), results, "009-rates")["low-strong"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return write_queue(tmp_path_factory.mktemp("009"))


def test_an_incomplete_queue_is_refused_with_the_number_of_missing_jobs(tmp_path):
    results = write_queue(tmp_path / "results")
    for name in ("grpo-5e-6-408", "sham-2e-5-403", "start-401"):
        (results / f"low-strong/{name}.jsonl.zst").unlink()
    command = [sys.executable, "-m", "composer_replication", "experiment", "rebuild", str(EXPERIMENT), "--"]
    ended = subprocess.run(
        [*command, "--results", str(results), "--figures", str(tmp_path / "figures")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ended.returncode == 1
    missing = ", ".join(f"low-strong/{name}" for name in ("start-401", "grpo-5e-6-408", "sham-2e-5-403"))
    assert f"incomplete: 3 of 104 jobs are missing ({missing})" in ended.stderr
    assert not (results / "tables.json").exists() and not (tmp_path / "figures").exists()


def test_a_whole_queue_becomes_tables_and_figures(whole, tmp_path):
    command = [sys.executable, "-m", "composer_replication", "experiment", "rebuild", str(EXPERIMENT), "--"]
    ended = subprocess.run(
        [*command, "--results", str(whole), "--figures", str(tmp_path / "figures")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    tables = json.loads((whole / "tables.json").read_text())
    assert [one["name"] for one in tables["registered"]] == ["H1", "H2", "H3", "H4", "H5", "H6"]
    assert tables["levels"]["sham-5e-6"]["success"]["20"]["mean"] == pytest.approx(4.5 / 16)
    assert tables["starts"]["hint"]["above_plain"]["interval"]["mean"] == pytest.approx(7 / 16)
    assert tables["levels"]["dynamic-5e-6"]["speed"] is None and "dynamic-5e-6" not in tables["rollouts_to_level"]
    assert "| H4 | sdpo − grpo at 5e-6 | success at step 20 | +12.5" in (whole / "tables.md").read_text()
    drawn = {path.stem for path in (tmp_path / "figures").iterdir()}
    assert {"curves-5e-6", "curves-4e-5", "curves-best", "waiting-0.5", "dynamic"} <= drawn


def test_the_six_differences_are_those_of_the_plan_with_holm_over_six(whole):
    tested = {one.name: one for one in importlib.import_module("hypotheses").registered(read(whole))}
    at_20 = {"H4": 2 / 16, "H5": (2 * 4 - 2 * 2) / 16}
    for name, expected in at_20.items():
        assert tested[name].difference.step == 20
        assert list(tested[name].difference.by_seed.values()) == pytest.approx([expected] * 8)
    assert tested["H6"].difference.step == 10 and tested["H6"].difference.interval.mean == pytest.approx(1 / 16)
    assert tested["H2"].difference.step == 40 and tested["H2"].difference.p == 1.0
    assert tested["H1"].difference.step is None and tested["H3"].difference.step is None
    assert tested["H4"].difference.p == tested["H4"].difference.smallest_p == 2 / 2**8
    # Five of six are at the smallest p; the first step multiplies it by six, and no later one may come below that.
    assert [tested[name].p_holm for name in ("H1", "H3", "H4", "H5", "H6")] == pytest.approx([6 / 128] * 5)
    assert [one.told for one in tested.values()] == ["higher", "no clear difference", *["higher"] * 4]


def test_speed_is_the_area_to_step_40_whatever_comes_later(whole):
    arms = read(whole).arms
    points = [(step, height("grpo-5e-6", 401, step) / 16) for step in (0, 5, 10, 15, 20, 30, 40)]
    area = sum((b - a) * (x + y) / 2 for (a, x), (b, y) in pairwise(points))
    assert arms["grpo-5e-6"][401].speed == pytest.approx(area / 40)
    with pytest.raises(ValueError, match="not measured at step 40"):
        _ = arms["dynamic-5e-6"][401].speed


def test_no_seed_chooses_its_own_rate(tmp_path):
    def one_seed_flies(arm, seed, step):
        if arm == "grpo-4e-5":
            return 14 if seed == 401 and step else height("grpo-2e-5", seed, step) - (step == 40)
        return height(arm, seed, step)

    cell, rates = read(write_queue(tmp_path, one_seed_flies)), importlib.import_module("measured").RATES
    chosen = best_rates(cell, "grpo", rates)
    assert chosen.pop(401) == "2e-5" and set(chosen.values()) == {"4e-5"}
    best = at_best_rate(cell, "grpo", rates)
    assert best[401] is cell.arms["grpo-2e-5"][401] and best[402] is cell.arms["grpo-4e-5"][402]


def test_seeds_that_do_not_reach_a_level_count_with_the_horizon(whole):
    measured, arms = importlib.import_module("measured"), read(whole).arms
    # From 2/16 and 3/16 by 1/16 per ten steps, 80 steps long: .5 comes at steps 60 and 50, behind the horizon.
    slow = measured.time_to_level(arms["grpo-5e-6"], 0.5)
    assert slow.censored == 8 and slow.restricted_mean.mean == 40 * 128
    # By 2/16 per ten steps: at step 40 one half of the seeds is at 10/16, the other went from 9/16 to 11/16.
    mixed = measured.time_to_level(arms["grpo-1e-5"], 0.65)
    assert mixed.censored == 4 and list(mixed.by_seed.values()) == pytest.approx([37 * 128, 40 * 128] * 4)
    assert mixed.restricted_mean.mean == pytest.approx((40 + 37) / 2 * 128)
    assert mixed.restricted_mean.lo < mixed.restricted_mean.mean < mixed.restricted_mean.hi


def test_a_run_that_was_ended_early_counts_with_the_policy_it_had(whole, tmp_path):
    results = write_queue(tmp_path)
    path = results / "low-strong/sdpo-5e-6-402.jsonl.zst"
    write_result(path, run_lines("sdpo-5e-6", 402, until=12))
    ended = read(results).arms["sdpo-5e-6"][402]
    assert ended.points[10].success == height("sdpo-5e-6", 402, 10) / 16
    assert {ended.points[step].success for step in (15, 20, 40, 80)} == {height("sdpo-5e-6", 402, 12) / 16}
    tokens_until = importlib.import_module("measured").tokens_until
    assert [tokens_until(ended, step) for step in (0, 12, 20)] == [0, 12_000, 12_000]


def test_a_gap_in_a_curve_that_nothing_explains_is_an_error(tmp_path):
    results = write_queue(tmp_path)
    lines = [line for line in run_lines("grpo-2e-5", 405) if line.get("samples") != 4]
    write_result(results / "low-strong/grpo-2e-5-405.jsonl.zst", lines)
    with pytest.raises(KeyError):
        read(results)


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [({"start_sha256": "of another"}, "did not begin from the start"), ({"task_id": "x"}, "other tasks")],
)
def test_a_run_of_another_start_or_of_other_tasks_is_refused(tmp_path, changed, complaint):
    results = write_queue(tmp_path)
    lines = [{**line, **{key: changed[key] for key in changed if key in line}} for line in run_lines("grpo-2e-5", 405)]
    write_result(results / "low-strong/grpo-2e-5-405.jsonl.zst", lines)
    with pytest.raises(ValueError, match=complaint):
        read(results)


def test_runs_that_were_set_aside_are_counted_and_not_read(whole, tmp_path):
    results = write_queue(tmp_path)
    write_result(
        results / "low-strong/orphans/grpo-2e-5-405.jsonl.zst", run_lines("grpo-2e-5", 405, start_sha256="old")
    )
    assert read(results).orphans == 1 and read(results).arms == read(whole).arms


def test_the_share_that_sham_hints_recover_needs_a_clear_difference(whole, tmp_path):
    described = importlib.import_module("described")
    assert described.sham_share(read(whole))["share"] == pytest.approx(0.0)

    def channel_2_does_nothing_on_average(arm, seed, step):
        moved = (1 if seed % 2 else -1) if arm == "sdpo-5e-6" and step else 0
        return height(arm.replace("sdpo", "grpo"), seed, step) + moved

    unclear = described.sham_share(read(write_queue(tmp_path, channel_2_does_nothing_on_average)))
    assert unclear["share"] is None and unclear["interval"] is None


def test_the_missing_of_a_start_is_told_like_that_of_a_run(tmp_path):
    missing = r"104 of 104 jobs are missing \(low-strong/start-401, low-strong/start-402, .*, …\)"
    with pytest.raises(RecomposeError, match=missing):
        read(tmp_path)


def test_a_crossing_is_the_first_one_on_the_straight_lines():
    curve = [(0, 0.2), (10, 0.6), (20, 0.4), (30, 0.8)]
    assert first_crossing(curve, 0.5) == pytest.approx(7.5)
    assert first_crossing(curve, 0.1) == 0 and first_crossing(curve, 0.8) == 30
    assert first_crossing(curve, 0.7) == pytest.approx(27.5) and first_crossing(curve, 0.9) is None


def test_the_share_of_those_not_there_yet_falls_at_each_crossing_and_ends_with_the_censored():
    assert not_there_yet([30.0, None, 10.0, None], 40.0) == [
        (0.0, 1.0), (10.0, 1.0), (10.0, 0.75), (30.0, 0.75), (30.0, 0.5), (40.0, 0.5),
    ]  # fmt: skip
