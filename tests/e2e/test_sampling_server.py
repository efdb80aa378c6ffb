"""`recompose train` with a server that samples: rollouts come from the weights that the step before left."""

from __future__ import annotations

import json

import pytest
import torch

from composer_replication.cli.train import train
from composer_replication.config import Config, HardwareConfig, SamplingConfig, TrainingConfig, WarmupConfig
from composer_replication.environments.opening import open_environment
from composer_replication.objective import GrpoSettings, SdpoSettings
from composer_replication.runs import Run, read_records
from composer_replication.training.models.loading import load_policy, load_saved_policy
from composer_replication.training.stored.records import RolloutSample
from tests.token_server import TokenServer

STEPS = 3
"""The first has learning rate 0."""


class Remembering(TokenServer):
    """Keeps every model that it was given."""

    def _load(self, folder):
        super()._load(folder)
        self.given = [*getattr(self, "given", []), self.model]


@pytest.fixture
def server():
    config = Config()
    with open_environment(config) as environment:
        policy = load_policy("tiny", environment, 0)
    with Remembering(policy.model, policy.tokenizer.pad_token_id) as server:
        yield server


def run_on(server, folder, lora_rank=None, **settings):
    config = Config(
        warmup=WarmupConfig(steps=1, batch_size=2),
        training=TrainingConfig(
            steps=STEPS, prompts_per_step=2, group_size=2, max_turn_tokens=12, gradient_ratio_cap=None
        ),
        channels=(GrpoSettings(), SdpoSettings(weight=1.0, source="rollouts", require_disfavour=False)),
        hardware=HardwareConfig(lora_rank=lora_rank),
        sampling=SamplingConfig(server=server.url, weight_transfer="disk", **settings),
    )
    return Run.start(folder / "run", config)


def flat(model):
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


def test_each_step_is_sampled_from_the_weights_of_the_step_before(server, tmp_path):
    run = run_on(server, tmp_path)
    train(run.path)
    assert server.versions == [str(step) for step in range(1, STEPS + 1)]
    by_version = {request["version"] for request in server.requests}
    assert by_version == set(server.versions)
    start = load_saved_policy(run.path / "policy" / "model", "start").model
    first, second, third = map(flat, server.given)
    assert torch.equal(first, flat(start))
    assert torch.equal(first, second)
    assert not torch.equal(second, third)
    kept = list(read_records(run.path / "training" / "samples" / "step_0000001.jsonl.zst", RolloutSample))
    assert {version for sample in kept for version in sample.model_versions} == {1}
    assert not (run.path / "training" / "served").exists()
    assert run.stage("training").require()["counts"]["steps"] == STEPS


def test_a_server_gets_adapters_merged(server, tmp_path):
    pytest.importorskip("peft")
    run = run_on(server, tmp_path, lora_rank=2)
    train(run.path)
    first, second, third = map(flat, server.given)
    assert torch.equal(first, second)
    assert first.shape == third.shape and not torch.equal(second, third)


def test_rollouts_are_played_while_the_policy_trains(server, tmp_path):
    run = run_on(server, tmp_path, max_staleness=2)
    train(run.path, backend="trl_async")
    assert server.versions == [str(version) for version in range(1, STEPS + 2)], "once at the start, then each step"
    lines = [json.loads(line) for line in (run.path / "training" / "metrics.jsonl").read_text().splitlines()]
    steps = [line for line in lines if "grad_norm" in line]
    assert len(steps) == STEPS
    assert all(line["sample/staleness_max"] <= 2 for line in steps)
    assert steps[0]["sampling/mismatch_max"] < 1e-4, "the first rollouts are of the very weights that train"
    assert all(line["grad_norm"] > 0 for line in steps)
    assert any(line["sdpo/sites_per_rollout"] > 0 for line in steps)
    trained = load_saved_policy(run.path / "training" / "model", "trained").model
    assert torch.equal(flat(trained), flat(server.given[-1]))
    assert not torch.equal(flat(server.given[0]), flat(server.given[-1]))
    assert run.stage("training").require()["counts"]["backend"] == "trl_async"
    assert not (run.path / "training" / "served").exists()
