"""The published page of experiment 004 follows from its raw files, and the raw files are all that the plan asks for."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXPERIMENT = ROOT / "experiments" / "004-ab"


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """The experiment and an empty docs folder somewhere else, so that a rebuild cannot touch the repository."""
    folder = tmp_path_factory.mktemp("rebuild")
    (folder / "docs").mkdir()
    (folder / "experiments").mkdir()
    subprocess.run(["cp", "-r", EXPERIMENT, folder / "experiments"], check=True)
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
    assert (copy / "docs/results.md").read_text() == (ROOT / "docs/results.md").read_text()
    for figure in (EXPERIMENT / "figures").iterdir():
        assert (copy / "experiments/004-ab/figures" / figure.name).read_text() == figure.read_text()


def test_a_changed_result_changes_the_page(copy):
    runs = copy / "experiments/004-ab/results/main"
    (runs / "sham-11.jsonl.zst").write_bytes((runs / "sham-12.jsonl.zst").read_bytes())
    assert rebuild(copy).returncode == 0
    assert (copy / "docs/results.md").read_text() != (ROOT / "docs/results.md").read_text()


def test_every_planned_run_is_there():
    sys.path.insert(0, str(EXPERIMENT))
    try:
        from plan import read_plan
    finally:
        sys.path.remove(str(EXPERIMENT))
    plan = read_plan(EXPERIMENT / "plan.toml")
    wanted = [(arm, seed) for arm in plan.arms("main") for seed in plan.seeds("main", arm)]
    assert len(wanted) == 51
    assert all((EXPERIMENT / f"results/main/{arm}-{seed}.jsonl.zst").is_file() for arm, seed in wanted)
