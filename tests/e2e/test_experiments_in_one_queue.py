"""Experiments 011, 012 and 013 in one queue with a tiny policy: every arm that has code of its own, two steps each."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path

import pytest
import tomli_w

from shared.result_lines import read_result
from shared.runner.jobs import Experiment, wanted
from shared.runner.plan import merged
from shared.runner.toolbox import jobs_of

EXPERIMENTS = Path(__file__).parents[2] / "experiments"
SEEDS = {"011-content": 501, "012-competitors": 601, "013-triples": 701}
ARMS = {
    "011-content": ["q050/sham-501"],
    "012-competitors": [f"half/{arm}-1e-3-601" for arm in ("star", "context", "alone", "trl")],
    "013-triples": ["own-teachers/prefix-1e-3-701"],
}
SMALL = {
    "base": {
        "model": {"name": "tiny"},
        "warmup": {"steps": 12, "batch_size": 4, "optimizer": "muon", "learning_rate": 4e-3},
        "ingestion": {"rollouts": 16},
        "training": {"steps": 2, "prompts_per_step": 2, "group_size": 4},
        "hardware": {"rollouts_per_device": 4},
    },
    "measuring": {
        "part": "dev",
        "tasks": 4,
        "samples": 2,
        "curve": {"1": 1},
        "kl_episodes": 4,
        "probe_sites": 4,
        "reminders": [],
    },
}


def small(plan, seed):
    """The real plan's arms and regimes, with a tiny model, one seed and two steps."""
    measuring = {key: value for key, value in plan["measuring"].items() if key != "curve"}
    plan = merged({**plan, "measuring": measuring}, SMALL)
    plan["seconds"] = dict.fromkeys(plan["seconds"], 1)
    plan.pop("tests")  # one seed cannot be tested
    for regime in plan["regimes"].values():
        regime["seeds"] = [seed]
    if "rates" in plan:
        plan["rates"] = ["1e-3"]
    for layer in plan.get("teachers", []):
        layer["warmup"]["steps"] = 2
    for phase in plan["arms"].get("context", {}).get("phases", []):
        phase["steps"] = 1
    return plan


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("queue")
    for name, seed in SEEDS.items():
        own = folder / "code" / name
        own.mkdir(parents=True)
        for script in (EXPERIMENTS / name).glob("*.py"):
            (own / script.name).write_text(script.read_text())
        plan = small(tomllib.loads((EXPERIMENTS / name / "plan.toml").read_text()), seed)
        (own / "plan.toml").write_text(tomli_w.dumps(plan))
    (folder / "code" / "shared").symlink_to(EXPERIMENTS / "shared")
    (folder / "code" / "slice.sh").write_text((EXPERIMENTS / "slice.sh").read_text())
    only = " ".join(f"{name}/{arm}" for name, arms in ARMS.items() for arm in arms)
    own = {"WORK": str(folder / "work"), "RESULTS": str(folder / "results"), "PYTHON": sys.executable, "ONLY": only}
    done = subprocess.run(
        ["bash", str(folder / "code/slice.sh"), str(folder / "earlier"), str(folder / "out"), "500", "1", *SEEDS],
        capture_output=True, text=True, check=False, env=os.environ | own | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert not done.returncode, done.stdout + done.stderr
    assert "13 of 13 jobs done, exit codes" in done.stdout and "next: none" in done.stdout
    with tarfile.open(folder / "out" / "results.tar") as packed:
        packed.extractall(folder / "unpacked", filter="data")
    return folder


def lines(folder, name, arm, kind):
    path = folder / "unpacked" / name / "results" / f"{arm}.jsonl.zst"
    return [line for line in read_result(path) if line["line"] == kind]


def steps(folder, name, arm):
    return lines(folder, name, arm, "step")


@pytest.mark.parametrize(("name", "arm"), [(name, arm) for name, arms in ARMS.items() for arm in arms])
def test_an_arm_makes_its_steps_and_is_measured_without_hints(folder, name, arm):
    assert [line["step"] for line in steps(folder, name, arm)] == [1, 2]
    assert [line["step"] for line in lines(folder, name, arm, "curve")] == [1]
    assert len(lines(folder, name, arm, "task")) == 4


def test_a_sham_is_pushed_as_hard_as_the_true_hint(folder):
    (header,) = lines(folder, "011-content", "q050/sham-501", "run")
    assert header["config"]["training"]["gradient_ratio_target"]
    assert header["config"]["warmup"]["hints_cure"] == 0.5
    assert steps(folder, "011-content", "q050/sham-501")[1]["grad_norm"] > 0, "the policy's own is 0 here"


def test_own_accepted_turns_are_imitated_and_nothing_is_distilled(folder):
    found = steps(folder, "012-competitors", "half/star-1e-3-601")
    assert all("channel/sdpo" not in line and "channel/replay" in line for line in found)
    assert any(line.get("replay/pairs") for line in found)


def test_the_hint_is_first_in_the_prompt_and_then_distilled_without_a_reward(folder):
    first, second = steps(folder, "012-competitors", "half/context-1e-3-601")
    assert "channel/sdpo" not in first and second["channel/sdpo"] > 0
    (header,) = lines(folder, "012-competitors", "half/context-1e-3-601", "run")
    (later,) = header["later_configs"]
    assert header["seed"] == 601 and later["seed"] == 1601 and later["channels"][0]["weight"] == 0


def test_distillation_alone_takes_nothing_from_the_reward(folder):
    found = steps(folder, "012-competitors", "half/alone-1e-3-601")
    assert all(line["gradient/policy"] == 0 and line["gradient/sdpo"] > 0 for line in found)
    assert found[1]["grad_norm"] > 0


def test_trls_trainer_learns_from_the_error_turns(folder):
    found = steps(folder, "012-competitors", "half/trl-1e-3-601")
    assert all(0 < line["self_distillation/reprompt_sample_fraction"] <= 1 for line in found)
    assert all(line["grad_norm"] > 0 for line in found)


def test_teachers_of_a_seed_are_its_own(folder):
    made = {path.name for path in (folder / "work" / "013-triples" / "own-teachers").glob("teacher-*")}
    assert made == {"teacher-701a", "teacher-701b", "teacher-701c"}
    (data,) = lines(folder, "013-triples", "own-teachers/data-701", "data")
    (header,) = lines(folder, "013-triples", "own-teachers/prefix-1e-3-701", "run")
    assert header["data_sha256"] == data["data_sha256"]
    assert data["teacher_calls"].keys() == {"checkpoint-701a", "checkpoint-701b", "checkpoint-701c"}


def test_a_machine_that_keeps_nothing_makes_no_teacher_that_nobody_waits_for(folder, tmp_path):
    own = folder / "code" / "013-triples"
    results = folder / "results" / "013-triples" / "results"
    jobs = jobs_of(Experiment(own, own / "plan.toml", tmp_path, results, ""))
    waited_for = [job.name for job in wanted(jobs) if not job.result.exists()]
    assert "own-teachers/trdpo-1e-3-701" in waited_for
    done = [job for job in jobs if job.name not in waited_for or "/teacher-" in job.name]
    assert not [job.name for job in wanted(done) if "/teacher-" in job.name]
