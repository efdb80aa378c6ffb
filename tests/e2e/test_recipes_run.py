"""Recipes 02 to 06, whole, at a small shape: the same architecture, chat template, channels and hardware settings.

Smaller are the model, the numbers of rollouts and steps, and what the machine lacks: bfloat16 products, and the
engine behind recipe 06, whose place a loopback server takes.
"""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
from transformers import AutoConfig, AutoModelForCausalLM

from composer_replication.config import Config
from composer_replication.environments.opening import open_environment
from composer_replication.pipeline import run_stage
from composer_replication.progress import Silent
from composer_replication.runs import Run
from composer_replication.training.models.loading import load_policy
from tests.command_line import recompose
from tests.golden.templates.tokenizers import template_tokenizer
from tests.token_server import TokenServer

RECIPES = Path(__file__).parents[2] / "recipes"
ARCHITECTURES = {
    "smollm2": ("llama", "smollm2"),
    "Qwen/Qwen3-8B": ("qwen3", "qwen3"),
    "Qwen/Qwen3-32B": ("qwen3", "qwen3"),
}
SMALL = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
         "num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 8192}  # fmt: skip


def small_model(name: str, folder: Path) -> Path:
    kind, template = ARCHITECTURES[name]
    tokenizer = template_tokenizer(template)
    config = AutoConfig.for_model(kind, **SMALL, vocab_size=len(tokenizer), pad_token_id=tokenizer.pad_token_id)
    AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def small_config(recipe: Path, folder: Path) -> Config:
    read = tomllib.loads((recipe / "config.toml").read_text())
    read["model"]["name"] = str(small_model(read["model"]["name"], folder))
    read["warmup"]["steps"] = min(1, read["warmup"]["steps"])
    read["ingestion"]["rollouts"] = 6
    read["training"] |= {"steps": 2, "prompts_per_step": 1, "group_size": 2, "max_turn_tokens": 6}
    read["hardware"]["autocast"] = "off"
    if "rollouts_per_device" in read["hardware"]:
        read["hardware"]["rollouts_per_device"] = 1
    if "sampling" in read:
        read["sampling"] |= {"weight_transfer": "disk"}
    return Config.model_validate(read)


@pytest.mark.parametrize("recipe", sorted(RECIPES.glob("0[2-6]-*")), ids=lambda path: path.name)
def test_a_recipe_trains_for_two_steps(recipe, tmp_path):
    config = small_config(recipe, tmp_path / "model")
    if config.sampling.server:
        with open_environment(config) as environment:
            policy = load_policy(config.model.name, environment, 0)
        with TokenServer(policy.model, policy.tokenizer.pad_token_id) as server:
            sampling = config.sampling.model_copy(update={"server": server.url})
            trained(config.model_copy(update={"sampling": sampling}), tmp_path / "run")
    else:
        trained(config, tmp_path / "run")


def trained(config: Config, folder: Path) -> None:
    run = Run.start(folder, config)
    for noun in ("ingestion", "sites", "hints", "replay", "pairs"):
        run_stage(run, noun, Silent())
    planned = recompose("train", folder, "--dry-run", "--json")
    assert planned.returncode == 0, planned.stderr
    run_stage(run, "training", Silent())
    counts = run.stage("training").require()["counts"]
    assert counts["steps"] == 2
    assert counts["pairs"] > 0
    lines = [json.loads(line) for line in (folder / "training" / "metrics.jsonl").read_text().splitlines()]
    steps = [line for line in lines if "grad_norm" in line]
    assert all(line["sdpo/sites"] > 0 and line["sdpo/divergence"] > 0 for line in steps)
    assert any(line["channel/replay"] > 0 for line in steps)
    assert (folder / "training" / "adapters").exists() == (config.hardware.lora_rank is not None)
