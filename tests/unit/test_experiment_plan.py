"""A plan for the shared runner: its mistakes are told before anything is trained, and README's is whole."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
import tomli_w

from composer_replication.errors import UsageError
from shared.runner import run
from shared.runner.jobs import Experiment
from shared.runner.plan import merged, read_plan
from shared.runner.toolbox import jobs_of

EXPERIMENTS = Path(__file__).parents[2] / "experiments"
PLANS = [path for path in EXPERIMENTS.glob("*/*.toml") if "regimes" in tomllib.loads(path.read_text())]
[SHOWN] = re.findall(r"```toml\n(.*?)```", (EXPERIMENTS / "README.md").read_text(), re.DOTALL)
WHOLE = tomllib.loads(SHOWN)


def jobs(folder, raw):
    (folder / "plan.toml").write_text(tomli_w.dumps(raw))
    return jobs_of(Experiment(folder, folder / "plan.toml", folder / "work", folder / "results", ""))


def without(section, key):
    return {**WHOLE, section: {name: value for name, value in WHOLE[section].items() if name != key}}


@pytest.mark.parametrize("plan", PLANS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_the_plans_that_are_there_pass(plan, tmp_path):
    assert jobs(tmp_path, tomllib.loads(plan.read_text()))


def test_the_plan_of_the_readme_is_whole(tmp_path):
    assert len(jobs(tmp_path, WHOLE)) == 2 * (1 + 2)
    plan = read_plan(tmp_path / "plan.toml")
    assert all(plan.config(regime, arm, 1) for regime in plan.regimes for arm in plan.arms(regime))


@pytest.mark.parametrize(
    ("raw", "mistake"),
    [
        ({name: own for name, own in WHOLE.items() if name != "seconds"}, "no [seconds]"),
        (without("seconds", "arm"), "no arm in [seconds]"),
        (without("measuring", "probe_tries"), "no probe_tries in [measuring]"),
        (without("measuring", "curve"), "no curve in [measuring]"),
        (without("measuring", "splits"), "no side_samples in [measuring] for splits beside heldout"),
        (merged(WHOLE, {"measuring": {"part": "toy"}}), "no held-out tasks for part toy: add it to FIRST_TASK"),
        (merged(WHOLE, {"regimes": {"other": {"seeds": [1, 2]}}}), "no arms in [regimes.other]"),
        (merged(WHOLE, {"regimes": {"main": {"arms": ["grpo", "dpo"]}}}), "no [arms.dpo], which regime main names"),
        (merged(WHOLE, {"regimes": {"main": {"seeds": [1]}}}), "regime main has one seed, and tests need several"),
        (merged(WHOLE, {"tests": {"H1": {"regime": "man"}}}), "H1: no regime man"),
        (merged(WHOLE, {"tests": {"H1": {"sides": ["sdpo", "dpo"]}}}), "H1: dpo is no arm of regime main"),
        (merged(WHOLE, {"tests": {"H1": {"success_at": 7}}}), "H1: step 7 is not measured"),
        ({**WHOLE, "tests": {"H1": {"sides": ["sdpo", "grpo"]}}}, "H1: names neither a regime nor a gap (over)"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_mistake_is_told_before_anything_is_trained(raw, mistake, tmp_path):
    with pytest.raises(UsageError, match=re.escape(mistake)):
        jobs(tmp_path, raw)


def test_all_mistakes_are_told_at_once_and_without_frames(tmp_path):
    raw = merged(WHOLE, {"measuring": {"part": "toy"}, "tests": {"H1": {"regime": "man"}}})
    (tmp_path / "plan.toml").write_text(tomli_w.dumps(raw))
    with pytest.raises(SystemExit, match=r"part toy.*no regime man.*next: "):
        run.alone(tmp_path, ["--work", str(tmp_path / "work")])


def test_a_slice_in_which_no_job_fits_says_so(tmp_path):
    (tmp_path / "plan.toml").write_text(tomli_w.dumps(WHOLE))
    with pytest.raises(SystemExit, match=r"no job fits into 5 s: main/start-\d+ is to take 60 s"):
        run.alone(tmp_path, ["--work", str(tmp_path / "work"), "--slice-s", "5"])
