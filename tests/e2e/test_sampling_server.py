"""`recompose train` with a server that samples: rollouts come from the weights that the step before left."""

from __future__ import annotations

import torch

from composer_replication.cli.train import train
from composer_replication.config import Config, SamplingConfig, TrainingConfig, WarmupConfig
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


def test_each_step_is_sampled_from_the_weights_of_the_step_before(tmp_path):
    config = Config(
        warmup=WarmupConfig(steps=1, batch_size=2),
        training=TrainingConfig(
            steps=STEPS, prompts_per_step=2, group_size=2, max_turn_tokens=12, gradient_ratio_cap=None
        ),
        channels=(GrpoSettings(), SdpoSettings(weight=1.0, source="rollouts", require_disfavour=False)),
    )
    with open_environment(config) as environment:
        policy = load_policy("tiny", environment, 0)
    with Remembering(policy.model, policy.tokenizer.pad_token_id) as server:
        sampling = SamplingConfig(server=server.url, weight_transfer="disk")
        run = Run.start(tmp_path / "run", config.model_copy(update={"sampling": sampling}))
        train(run.path)
    assert server.versions == [str(step) for step in range(1, STEPS + 1)]
    by_version = {request["version"] for request in server.requests}
    assert by_version == set(server.versions)
    start = load_saved_policy(run.path / "policy" / "model", "start").model
    first, second, third = (torch.cat([p.flatten() for p in model.parameters()]) for model in server.given)
    assert torch.equal(first, torch.cat([parameter.flatten() for parameter in start.parameters()]))
    assert torch.equal(first, second)
    assert not torch.equal(second, third)
    kept = list(read_records(run.path / "training" / "samples" / "step_0000001.jsonl.zst", RolloutSample))
    assert {version for sample in kept for version in sample.model_versions} == {1}
    assert not (run.path / "training" / "served").exists()
    assert run.stage("training").require()["counts"]["steps"] == STEPS
