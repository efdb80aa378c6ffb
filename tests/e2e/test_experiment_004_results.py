"""The published page of experiment 004 follows from its raw files, and the raw files are all that the plan asks for."""

import subprocess
import sys
from pathlib import Path

import pytest

from shared.runner.plan import read_plan
from tests.own_modules import modules_of

ROOT = Path(__file__).parents[2]
EXPERIMENT = ROOT / "experiments" / "004-ab"


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """The experiment and an empty docs folder somewhere else, so that a rebuild cannot touch the repository."""
    folder = tmp_path_factory.mktemp("rebuild")
    (folder / "docs").mkdir()
    (folder / "experiments").mkdir()
    subprocess.run(["cp", "-r", EXPERIMENT, EXPERIMENT.with_name("shared"), folder / "experiments"], check=True)
    return folder


def rebuild(folder):
    command = [
        sys.executable,
        "-m",
        "composer_replication",
        "experiment",
        "rebuild",
        str(folder / "experiments/004-ab"),
    ]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def test_the_page_and_the_figures_are_what_the_raw_files_say(copy):
    ended = rebuild(copy)
    assert ended.returncode == 0, ended.stderr
    for page in ("docs/results.md", "docs/results-details.md"):
        assert (copy / page).read_text() == (ROOT / page).read_text()
    for figure in (EXPERIMENT / "figures").iterdir():
        assert (copy / "experiments/004-ab/figures" / figure.name).read_text() == figure.read_text()


def test_a_changed_result_changes_the_page(copy):
    runs = copy / "experiments/004-ab/results/main"
    (runs / "sham-11.jsonl.zst").write_bytes((runs / "sham-12.jsonl.zst").read_bytes())
    assert rebuild(copy).returncode == 0
    assert (copy / "docs/results.md").read_text() != (ROOT / "docs/results.md").read_text()


@pytest.fixture
def imported():
    with modules_of(EXPERIMENT) as module:
        yield module


@pytest.mark.parametrize(("name", "folder", "runs"), [("plan", "", 51), ("map", "map", 42), ("headline", "", 24)])
def test_every_planned_run_is_there(name, folder, runs):
    plan = read_plan(EXPERIMENT / f"{name}.toml")
    wanted = [
        f"{regime}/{arm}-{seed}.jsonl.zst"
        for regime in plan.regimes
        for arm in plan.arms(regime)
        for seed in plan.seeds(regime, arm)
        if name == "plan" or arm != "trdpo"
    ]
    assert len(wanted) == runs
    assert all((EXPERIMENT / "results" / folder / run).is_file() for run in wanted)


def test_success_is_counted_from_the_outcomes_so_that_ties_stay_ties(imported):
    reading = imported("reading")
    folder = EXPERIMENT / "results/main"
    finished = reading.runs(folder, reading.starts(folder))
    samples = 256 * 8
    assert {run.numbers["success"] * samples % 1 for run in finished} == {0.0}
    assert len({run.numbers["success"] for run in finished}) > 30


def test_a_slope_is_tested_against_every_order_of_the_cells(imported):
    slope_of = imported("regimes").slope_of
    found = slope_of([0.0, 0.1, 0.2, 0.3, 0.4], [-0.01, 0.0, 0.02, 0.1, 0.2])
    assert found.slope > 0 and found.orders == 120
    assert found.p == pytest.approx(2 / 120)
    assert slope_of([0.0, 0.1, 0.2, 0.3], [0.1, 0.0, 0.0, 0.1]).p == 1.0


def test_a_cell_wins_only_with_one_sign_and_two_points(imported):
    verdict = imported("regimes").verdict
    assert verdict([0.02, 0.03, 0.04]) == "wins"
    assert verdict([-0.02, -0.03, -0.04]) == "hurts"
    assert verdict([0.01, 0.02, 0.02]) == "null"
    assert verdict([-0.01, 0.2, 0.2]) == "null"
