"""prime-rl is not installable here: the file is held to TOML and to its sources' keys, the loss to its formula."""

import sys
import tomllib
from types import SimpleNamespace

import pytest
import torch

from composer_replication.config import Config, EnvironmentConfig
from composer_replication.errors import UsageError
from composer_replication.losses import prime_rl
from composer_replication.training.prime_rl import LOSS, left_out, prime_toml
from tests.command_line import recompose

SETTINGS = {
    "model": {"name": "Qwen/Qwen3-1.7B"},
    "environment": {
        "name": "verifiers", "taskset": "my-set", "python": "p", "settings": {"taskset": {"split": "train"}},
    },
    "training": {"steps": 30, "prompts_per_step": 4, "group_size": 8, "learning_rate": 1e-6},
}  # fmt: skip


def test_the_file_has_our_taskset_and_our_loss():
    text = prime_toml(Config.model_validate(SETTINGS))
    assert text.startswith("# NOT RUN")
    assert "# Left out: channel sdpo, prime-rl has no hook for it\n# Left out: channel trdpo, " in text
    written = tomllib.loads(text)
    assert (written["max_steps"], written["model"]["name"]) == (30, "Qwen/Qwen3-1.7B")
    assert (written["orchestrator"]["batch_size"], written["orchestrator"]["group_size"]) == (32, 8)
    (source,) = written["orchestrator"]["train"]["source"]
    assert source["env"]["taskset"] == {"id": "my-set", "split": "train"}
    assert written["trainer"]["loss"]["import_path"] == LOSS == f"{prime_rl.__name__}.{prime_rl.dapo.__name__}"
    assert written["trainer"]["optim"]["lr"] == 1e-6


def test_an_openenv_server_is_a_taskset_and_the_toolbox_must_be_served_first():
    served = {"name": "openenv", "url": "http://127.0.0.1:8765", "settings": {"tasks": 2}}
    written = tomllib.loads(prime_toml(Config.model_validate({**SETTINGS, "environment": served})))
    env = written["orchestrator"]["train"]["source"][0]["env"]
    assert env["taskset"] == {"id": "openenv", "base_url": served["url"], "resets": [{"seed": 0}, {"seed": 1}]}
    with pytest.raises(UsageError, match="toolbox is none"):
        prime_toml(Config())


def test_what_has_no_place_in_the_file_is_named():
    changed = {
        **SETTINGS, "seed": 7, "hardware": {"lora_rank": 16}, "warmup": {"steps": 5},
        "training": {**SETTINGS["training"], "reference_kl": 0.1, "error_turn_penalty": 0.2, "optimizer": "muon"},
        "channels": [{"name": "grpo", "weight": 0.5}],
    }  # fmt: skip
    config = Config.model_validate(changed)
    assert left_out(config) == [
        "the warm-up of 5 steps; prime-rl starts at Qwen/Qwen3-1.7B itself", "channels.grpo.weight = 0.5",
        'training.optimizer = "muon"', "training.reference_kl = 0.1", "training.error_turn_penalty = 0.2",
        "hardware.lora_rank = 16", "seed = 7",
    ]  # fmt: skip
    assert all(f"# Left out: {line}\n" in prime_toml(config) for line in left_out(config))


@pytest.mark.parametrize(("name", "missing"), [("verifiers", "taskset"), ("openenv", "url")])
def test_an_environment_that_names_nothing_to_play_is_refused(name, missing):
    config = Config().model_copy(update={"environment": EnvironmentConfig(name=name)})
    with pytest.raises(UsageError, match=f"names no {missing}"):
        prime_toml(config)


def test_any_key_and_value_of_a_taskset_is_still_toml():
    odd = {"a b": 1, "dots.in": {'ü "q"': "line\nand \x7f"}, "": True, "ids": [1, 2], "none": [], "env": ["env"]}
    environment = {**SETTINGS["environment"], "settings": {"taskset": {**odd, "unset": None}}}
    written = tomllib.loads(prime_toml(Config.model_validate({**SETTINGS, "environment": environment})))
    assert written["orchestrator"]["train"]["source"][0]["env"]["taskset"] == {"id": "my-set", **odd}


def test_the_command_writes_it(tmp_path):
    from composer_replication.runs import Run

    Run.start(tmp_path / "run", Config.model_validate(SETTINGS))
    done = recompose("export", str(tmp_path / "run"), "--prime-rl", str(tmp_path / "rl.toml"))
    assert done.returncode == 0, done.stderr
    assert "not run" in done.stdout
    assert "left out: channel sdpo" in done.stdout
    assert tomllib.loads((tmp_path / "rl.toml").read_text())["max_steps"] == 30


def test_the_loss_is_the_clipped_ratio_summed_over_the_masked_tokens(monkeypatch):
    module = SimpleNamespace(LossOutputs=SimpleNamespace)
    for name in ("prime_rl", "prime_rl.trainer", "prime_rl.trainer.rl", "prime_rl.trainer.rl.loss"):
        monkeypatch.setitem(sys.modules, name, module)
    ratios = torch.tensor([1.0, 2.0, 0.5, 0.5, 9.0])
    given = SimpleNamespace(
        trainer_logprobs=ratios.log(), inference_logprobs=torch.zeros(5), ref_logprobs=None, loss_weights=None,
        advantages=torch.tensor([2.0, 3.0, -0.5, 4.0, 1.0]), loss_mask=torch.tensor([True, True, True, True, False]),
    )  # fmt: skip
    made = prime_rl.dapo(given, clip_low=0.2, clip_high=0.28)
    assert made.loss.item() == pytest.approx(-(2.0 + 3 * 1.28 - 0.5 * 0.8 + 4 * 0.5))
    assert made.metrics["clipped"].item() == pytest.approx(3 / 4)
