"""A training that was interrupted is measured at a checkpoint, and can go on afterwards."""

from __future__ import annotations

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file

from composer_replication.config import Config
from composer_replication.pipeline import run_stage
from composer_replication.progress import Silent
from composer_replication.runs import Run
from composer_replication.stages.policy import load_own
from tests.command_line import recompose

SETTINGS = {
    "warmup": {"steps": 0},
    "ingestion": {"rollouts": 0},
    "training": {
        "steps": 4, "prompts_per_step": 1, "group_size": 2, "max_turn_tokens": 6, "checkpoint_every": 1,
        "learning_rate": 0.1, "rate_warmup_steps": 0,
    },
    "channels": [{"name": "grpo"}, {"name": "sdpo", "source": "rollouts", "weight": 1.0, "require_disfavour": False}],
    "evaluation": {"tasks": 5, "splits": ["heldout"]},
}  # fmt: skip


class StopsAfter(Silent):
    def __init__(self, step):
        self._step = step

    def step(self, done, total, detail="", left_s=None):
        if done == self._step and total == 4:
            raise KeyboardInterrupt


@pytest.fixture(scope="module", params=[None, 2], ids=["all weights", "adapters"])
def stopped(request, tmp_path_factory):
    settings = {**SETTINGS, "hardware": {"lora_rank": request.param}}
    run = Run.start(tmp_path_factory.mktemp("stopped") / "run", Config.model_validate(settings))
    with pytest.raises(KeyboardInterrupt):
        run_stage(run, "training", StopsAfter(3))
    return run


def test_a_training_that_has_not_ended_says_how_it_can_be_measured(stopped):
    refused = recompose("evaluate", stopped.path)
    assert refused.returncode == 2
    assert f"{stopped.path} has no finished training stage; 3 of 4 steps are kept" in refused.stderr
    assert f"recompose evaluate {stopped.path} --on tasks --checkpoint latest" in refused.stderr


def test_a_checkpoint_is_measured_and_the_training_can_go_on(stopped):
    before = sorted(path for path in stopped.path.rglob("*") if path.name != ".lock")
    ended = recompose("evaluate", stopped.path, "--checkpoint", "2", "--json")
    assert ended.returncode == 0, ended.stderr
    result, made = json.loads(ended.stdout), stopped.path.with_name("run-checkpoint-2")
    assert (result["run"], result["steps"], result["difference"]["n"]) == (str(made), 2, 5)
    assert "Measured after step 2 of 4, at a checkpoint." in (made / "report.html").read_text()
    assert sorted(path for path in stopped.path.rglob("*") if path.name != ".lock") == before
    learnt, start = load_own(Run.open(made), "training").model, load_own(stopped).model
    assert not all(map(torch.equal, learnt.parameters(), start.parameters()))
    weights = stopped.path / "training" / "scratch" / "checkpoint-2" / "model.safetensors"
    if weights.exists():
        own = learnt.state_dict()
        assert all(torch.equal(own[name], value) for name, value in load_file(weights).items())
    again = recompose("evaluate", stopped.path, "--checkpoint", "2", "--json")
    assert json.loads(again.stdout)["difference"] == result["difference"] and "kept, finished earlier" in again.stderr


def test_what_was_measured_of_a_former_training_is_not_told_of_this_one(stopped, tmp_path):
    """Trained anew, on other traces or by other code, a step of the same number has other weights."""
    run = Run.open(shutil.copytree(stopped.path, tmp_path / "run"))
    assert recompose("evaluate", run.path, "--checkpoint", "2").returncode == 0
    kept = run.path / "training" / "scratch"
    shutil.rmtree(kept / "checkpoint-2")
    shutil.copytree(kept / "checkpoint-3", kept / "checkpoint-2")
    refused = recompose("evaluate", run.path, "--checkpoint", "2")
    assert refused.returncode == 2 and "run-checkpoint-2 may be of another training" in refused.stderr
    assert "holds other weights than it was made of" in refused.stderr
    shutil.rmtree(tmp_path / "run-checkpoint-2")
    assert recompose("evaluate", run.path, "--checkpoint", "2").returncode == 0


@pytest.mark.parametrize("which", ["1", "last"])
def test_a_checkpoint_that_is_not_there_names_those_that_are(stopped, which):
    refused = recompose("evaluate", stopped.path, "--checkpoint", which)
    assert refused.returncode == 2
    assert refused.stderr.endswith(f"has no checkpoint {which}; next: choose from 2, 3, latest\n")
