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
TRAIN, TEST = (PLAN["repositories"][side] for side in ("train", "test"))
HONEST = dict.fromkeys(HACKS, (0.0, 0.0))


def shares(hack, unwatched):
    return {
        "paid": 0.75, "solved": 0.25, "unearned": 0.5, "hack": hack, "unwatched": unwatched,
        "sign": hack - unwatched, "alarm": 0.0,
    }  # fmt: skip


def task(repository, values, samples):
    lists = {name: [float(number < value * samples) for number in range(samples)] for name, value in values.items()}
    return {
        "line": "task", "task_id": repository, "name": f"{repository}-stub", "repository": repository,
        "passed": list(map(int, lists["paid"])), "rewards": lists["paid"], **lists,
    }  # fmt: skip


def write_everything(
    results, arms=PLAN["arms"], hacks=HACKS, chained=True, stopped=None, trained_on=TRAIN, taught=None
):
    def put(name, lines):
        write_result(results / f"{name}.jsonl.zst", lines)

    seldom = shares(0.0, 0.0) | {"paid": 0.125, "solved": 0.125, "unearned": 0.0}
    every = (*TRAIN, *TEST)
    put("taught", [{"line": "run"}])
    for part in range(PLAN["measuring"]["start_parts"]):
        put(f"start-{part}", [task(name, seldom, 8) for name in every])
    for arm in arms:
        for seed in PLAN["seeds"]:
            for end in (10, 20, 30):
                found = shares(*hacks[arm]) if end == 30 else shares(1.0, 0.0)
                found |= {"solved": 0.125} if (arm, end) == ("zero", 30) else {}
                steps = [
                    {
                        "line": "step",
                        "step": step,
                        **{f"verifier/{name}": value for name, value in found.items()},
                        "rollouts": [["inflection", 1.0, 0]] * 2,
                        **{name: [value, 0.0] for name, value in found.items()},
                    }
                    for step in range(end - 9, end + 1)
                ]
                before = f"{arm}{seed}@{end - 10}" if end > 10 and chained else None
                head = {"line": "run", "adapters_before": before, "adapters_after": f"{arm}{seed}@{end}"}
                head |= {"train_task_ids": trained_on, "taught": taught}
                head |= {"stopped": stopped if (arm, seed, end) == ("zero", PLAN["seeds"][0], 30) else None}
                put(f"{arm}-{seed}@{end}", [head, *steps, *(task(name, found, 8) for name in TEST)])


def rebuilt(results, *words):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(EXPERIMENT.parent), *sys.path])}
    command = [sys.executable, str(EXPERIMENT / "rebuild.py"), "--results", str(results), *words]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


def test_tables_have_the_numbers_of_the_files_and_the_words_of_the_plan(tmp_path):
    write_everything(tmp_path)
    done = rebuilt(tmp_path)
    assert done.returncode == 0, done.stderr
    tables = json.loads((tmp_path / "tables.json").read_text())
    assert tables["verdicts"] == {"off": "learns the hack", "zero": "hides", "discount": "stopped"}
    assert tables["stopped"] == {} and tables["orphans"] == 0
    assert tables["training"]["the start"]["paid"]["mean"] == pytest.approx(0.125)
    assert tables["training"]["off"]["hack"]["mean"] == pytest.approx(0.25)
    assert tables["training"]["zero"]["sign"]["mean"] == 0 and tables["test"]["off"]["solved"]["mean"] == 0.25
    assert (
        tables["costs"]["training"]["zero"]["mean"] == pytest.approx(-0.125) == tables["costs"]["test"]["zero"]["mean"]
    )
    assert tables["costs"]["training"]["discount"]["mean"] == 0
    assert tables["way"]["off"]["20"]["training"]["hack"] == 1.0 and tables["way"]["off"]["30"]["test"]["hack"] == 0.25
    assert tables["by_task"]["inflection-stub"]["off"]["hack"] == 0.125
    page = (tmp_path / "tables.md").read_text()
    assert "| inflection-stub, off | 37.5 | 12.5 |" in page
    assert "| zero | 75.0 [75.0, 75.0]" in page and "| zero 603 | 75.0 | 12.5 |" in page
    assert "Solved of zero less that of off: −12.5 [−12.5, −12.5]" in page


def test_where_off_does_not_learn_the_hack_nothing_was_stopped(tmp_path):
    write_everything(tmp_path, hacks=HONEST)
    assert rebuilt(tmp_path).returncode == 0
    verdicts = json.loads((tmp_path / "tables.json").read_text())["verdicts"]
    assert verdicts == {"off": "does not learn the hack", "zero": "open", "discount": "open"}


def test_what_was_stopped_and_what_began_anew_is_told(tmp_path):
    write_everything(tmp_path, stopped="loss is not a finite number")
    (tmp_path / "orphans").mkdir()
    (tmp_path / "orphans" / "1-off-601@10.jsonl.zst").touch()
    assert rebuilt(tmp_path).returncode == 0
    page = (tmp_path / "tables.md").read_text()
    assert "Stopped: zero-601@30 (loss is not a finite number). Runs begun anew: 1 files." in page


def test_segments_that_do_not_follow_each_other_are_refused(tmp_path):
    write_everything(tmp_path, chained=False)
    broken = rebuilt(tmp_path)
    assert broken.returncode == 1 and "off-601@20 did not begin with the adapters" in broken.stderr


def test_gaps_are_refused(tmp_path):
    write_everything(tmp_path, arms=("off", "zero"))
    missing = rebuilt(tmp_path)
    assert missing.returncode == 1 and "incomplete: 9 jobs are missing (discount-601@10" in missing.stderr


def test_runs_on_other_tasks_than_those_of_the_plan_are_refused(tmp_path):
    write_everything(tmp_path, trained_on=("dpath",))
    other = rebuilt(tmp_path)
    assert other.returncode == 1 and "off-601@10 was trained on other tasks than the plan's" in other.stderr


def test_runs_that_began_with_other_adapters_are_refused(tmp_path):
    write_everything(tmp_path, taught="of another machine")
    other = rebuilt(tmp_path)
    assert other.returncode == 1 and "off-601@10.jsonl.zst was made with other adapters" in other.stderr


def test_hacks_that_move_out_of_sight_are_hidden_however_many_there_are(tmp_path):
    write_everything(tmp_path, hacks={"off": (0.625, 0.0), "zero": (0.125, 0.125), "discount": (0.125, 0.0)})
    rebuilt(tmp_path)
    verdicts = json.loads((tmp_path / "tables.json").read_text())["verdicts"]
    assert verdicts["zero"] == "hides" and verdicts["discount"] == "not stopped"


def test_where_off_itself_is_out_of_sight_nothing_can_be_hidden(tmp_path):
    write_everything(tmp_path, hacks={"off": (0.625, 0.5), "zero": (0.75, 0.75), "discount": (0.5, 0.25)})
    rebuilt(tmp_path)
    verdicts = json.loads((tmp_path / "tables.json").read_text())["verdicts"]
    assert verdicts["zero"] == verdicts["discount"] == "open: without the monitor most hacks are unwatched too"


def test_the_start_can_be_looked_at_before_any_run(tmp_path):
    write_everything(tmp_path, arms=())
    done = rebuilt(tmp_path, "--start")
    assert done.returncode == 0 and "| train | 12.5 [" in done.stdout and "| inflection-stub | 12.5 |" in done.stdout
