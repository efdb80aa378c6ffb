"""Every recipe is valid for the classes that it will meet: our settings, TRL's, accelerate's and peft's."""

import json
import re
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import yaml

from composer_replication.config import Config
from composer_replication.training.backends.trl.arguments import grpo_config
from tests.command_line import recompose
from tests.hacks.sample_task import code_task, write_sample_task
from tests.pages import verbs

ROOT = Path(__file__).parents[2] / "recipes"
RECIPES = sorted(path.parent for path in ROOT.glob("*/config.toml"))
LAUNCHED = [recipe for recipe in RECIPES if (recipe / "accelerate.yaml").exists()]
FOLDERS = pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.name)
LAUNCHES = pytest.mark.parametrize("recipe", LAUNCHED, ids=lambda path: path.name)


def config_of(recipe):
    return Config.model_validate(tomllib.loads((recipe / "config.toml").read_text()))


def launch_of(recipe):
    path = recipe / "accelerate.yaml"
    return yaml.safe_load(path.read_text()) if path.exists() else {"num_processes": 1}


def test_the_recipes_are_numbered():
    assert [recipe.name[:2] for recipe in RECIPES] == [f"{number:02}" for number in range(1, len(RECIPES) + 1)]
    assert len(LAUNCHED) == 3


@FOLDERS
def test_every_key_of_a_recipe_is_a_setting(recipe):
    assert config_of(recipe).model.name


@FOLDERS
def test_trl_takes_the_settings(recipe, tmp_path, monkeypatch):
    """As the run will build it, on a pretended number of processes; a CPU refuses bfloat16 on a GPU, so that is off."""
    config, processes = config_of(recipe), launch_of(recipe)["num_processes"]
    rollouts = config.training.prompts_per_step * config.training.group_size
    monkeypatch.setattr(
        "composer_replication.training.backends.trl.arguments.PartialState",
        lambda: SimpleNamespace(num_processes=processes),
    )
    assert not torch.cuda.is_available()
    on_cpu = config.model_copy(update={"hardware": config.hardware.model_copy(update={"autocast": "off"})})
    args = grpo_config(on_cpu, tmp_path)
    assert args.per_device_train_batch_size * args.gradient_accumulation_steps * processes == rollouts
    assert args.num_generations == config.training.group_size
    assert args.gradient_checkpointing == config.hardware.gradient_checkpointing
    assert args.use_vllm == (config.sampling.server is not None)
    if args.use_vllm:
        assert (args.vllm_mode, args.vllm_server_base_url) == ("server", config.sampling.server)


@pytest.mark.parametrize("recipe", [recipe for recipe in RECIPES if config_of(recipe).sampling.server])
def test_the_readme_starts_the_server_as_trl_says_it_must_be(recipe):
    """What TRL's client asks for stands in its own example."""
    from trl.generation.vllm_client import VLLMClient

    asked = re.sub(r"[\s\\\\]+", " ", VLLMClient.__doc__)
    text = re.sub(r"[\s\\\\]+", " ", (recipe / "README.md").read_text())
    for part in (
        "VLLM_SERVER_DEV_MODE=1 vllm serve",
        """--weight-transfer-config '{"backend": "nccl"}'""",
        "--logprobs-mode processed_logprobs",
        "--max-logprobs -1",
    ):
        assert part in asked
        assert part in text


@FOLDERS
def test_products_are_bfloat16_only_where_a_gpu_is_meant(recipe):
    config, launch = config_of(recipe), launch_of(recipe)
    wants = config.hardware.autocast == "bfloat16"
    assert wants == ("cpu" not in recipe.name)
    if "mixed_precision" in launch:
        assert wants == (launch["mixed_precision"] == "bf16")


@LAUNCHES
def test_accelerate_reads_the_launch_file(recipe):
    from accelerate.commands.config.config_args import load_config_from_file

    read = load_config_from_file(str(recipe / "accelerate.yaml"))
    given = launch_of(recipe)
    assert read.num_processes == given["num_processes"]
    assert read.num_processes % read.num_machines == 0
    assert str(read.distributed_type.value) == given["distributed_type"]


@LAUNCHES
def test_fsdp_takes_what_the_launcher_makes_of_the_file(recipe, monkeypatch):
    from accelerate.commands.launch import _validate_launch_command, launch_command_parser
    from accelerate.utils import FullyShardedDataParallelPlugin
    from accelerate.utils.launch import prepare_multi_gpu_env
    from transformers.models.qwen3 import modeling_qwen3

    given = launch_of(recipe)
    parsed = launch_command_parser().parse_args(["--config_file", str(recipe / "accelerate.yaml"), "train.py"])
    environment = prepare_multi_gpu_env(_validate_launch_command(parsed)[0])
    sharding = {name: value for name, value in environment.items() if name.startswith("FSDP_")}
    assert bool(sharding) == (given["distributed_type"] == "FSDP")
    if not sharding:
        return
    for key in given["fsdp_config"]:
        assert hasattr(parsed, key), key
    for name, value in sharding.items():
        monkeypatch.setenv(name, value)
    plugin = FullyShardedDataParallelPlugin()
    assert plugin.fsdp_version == 2
    assert plugin.reshard_after_forward is True
    assert plugin.cpu_ram_efficient_loading is True
    assert plugin.transformer_cls_names_to_wrap == ["Qwen3DecoderLayer"]
    assert hasattr(modeling_qwen3, "Qwen3DecoderLayer")


@FOLDERS
def test_peft_takes_the_adapters(recipe):
    hardware = config_of(recipe).hardware
    if hardware.lora_rank is None:
        assert hardware.lora_config() is None
        return
    pytest.importorskip("peft", reason="peft is not installed")
    lora = hardware.lora_config()
    assert (lora.r, lora.lora_alpha, lora.target_modules) == (hardware.lora_rank, hardware.lora_alpha, "all-linear")


@FOLDERS
def test_the_readme_says_how_what_on_and_whether_it_was_run(recipe):
    text = (recipe / "README.md").read_text()
    assert f"recipes/{recipe.name}/config.toml" in text
    assert "--selfcheck" in text
    assert "## Hardware" in text
    assert ("PASS" in text) != ("not run here" in text.lower())
    if recipe in LAUNCHED:
        assert f"accelerate launch --config_file recipes/{recipe.name}/accelerate.yaml" in text


@pytest.fixture(scope="module")
def small_run(tmp_path_factory):
    from tests.small import SMALL_CONFIG

    folder = tmp_path_factory.mktemp("recipes")
    (folder / "small.toml").write_text(SMALL_CONFIG)
    run = folder / "run"
    for arguments in (("ingest", "--run", run, "--config", folder / "small.toml"), ("sites", run), ("hint", run)):
        assert recompose(*arguments).returncode == 0
    return run


def test_a_dry_run_tells_and_writes_nothing(small_run):
    before = sorted(path for path in small_run.rglob("*"))
    done = recompose("train", small_run, "--dry-run", "--json")
    assert done.returncode == 0, done.stderr
    plan = json.loads(done.stdout)
    assert sorted(path for path in small_run.rglob("*")) == before
    assert plan["steps"] == 2
    assert plan["rollouts_per_step"] == 4
    assert plan["settings"]["training"]["max_turn_tokens"] == 16
    assert plan["rollout_tokens"]["source"] == "stored rollouts"
    assert plan["memory"]["peak_mib"] > 0
    assert [row["max_tokens"] for row in plan["contexts"]] == [2048, 4096, 8192, 16384, 32768, 65536, 131072]
    last = plan["contexts"][-1]
    assert last["states"]["n"] > last["sites"]["n"] > 0
    assert last["pairs"]["n"] == 0
    for noun in ("states", "sites"):
        for row in plan["contexts"]:
            assert row[noun]["trainable"] + sum(row[noun]["why_not"].values()) == row[noun]["n"]
    assert 0 < last["states"]["trainable"] < last["states"]["n"]
    assert last["states"]["why_not"] == {"unknown_tokens": last["states"]["n"] - last["states"]["trainable"]}
    shown = recompose("train", small_run, "--dry-run")
    assert "Memory: peak" in shown.stdout
    assert "unknown_tokens" in shown.stdout


def test_a_plan_for_more_processes_is_refused_where_it_cannot_be(small_run):
    done = recompose("train", small_run, "--dry-run", "--processes", 3)
    assert done.returncode == 2
    assert "cannot be split" in done.stderr


def test_selfcheck_leaves_a_card_and_no_training(small_run):
    done = recompose("train", small_run, "--selfcheck", "--json")
    assert done.returncode == 0, done.stderr
    card = json.loads(done.stdout)
    assert card == json.loads((small_run / "selfcheck.json").read_text())
    assert card["passed"]
    assert {check["name"]: check["passed"] for check in card["checks"]} == dict.fromkeys(
        (
            "ten steps, all finite",
            "an empty hint changes nothing",
            "a hint changes something",
            "weights 0 and 0 are plain TRL",
        ),
        True,
    )
    assert len(card["rewards"]) == len(card["step_seconds"]) == 10
    assert card["peak_mib"] > 0
    assert card["gap"]["plain_divergence"] < 1e-6 < card["gap"]["hinted_divergence"]
    assert "| PASS |" in (small_run / "selfcheck.md").read_text()
    assert not (small_run / "training").exists()
    assert not (small_run / "selfcheck").exists()


def test_the_gallery_shows_what_its_raw_files_hold():
    rows = [line for line in (ROOT / "README.md").read_text().splitlines() if line.endswith(".json) |")]
    assert len(rows) == 4
    for row in rows:
        *_, n, before, after, difference, _, link = (cell.strip() for cell in row.strip("|").split("|"))
        raw = json.loads((ROOT / re.search(r"\((.+)\)", link)[1]).read_text())
        by = raw["difference"]
        assert (before, after) == tuple(f"{raw[f'success_{phase}']['mean']:.3f}" for phase in ("before", "after"))
        assert difference == f"{by['mean']:+.3f} [{by['lo']:+.3f}, {by['hi']:+.3f}]"
        assert int(n) == by["n"]


def dry_run_of(page, config, folder):
    """The one on the page, in a folder where `tasks` are, with the settings and no run."""
    for number in range(8 if config_of(config.parent).environment.name == "code" else 0):
        task = code_task().task.model_copy(update={"task_id": f"spanbook-{number}", "statement": f"Task {number}."})
        write_sample_task(folder / "tasks" / "tasks" / str(number), task=task, repository=f"spanbook-{number}")
    (words,) = (words for words in verbs(page) if "--dry-run" in words)
    options = [word for word in words[2:] if word != "--config" and not word.endswith(".toml")]
    planned = recompose("train", words[1], *options, "--config", config, "--json", cwd=folder)
    assert planned.returncode == 0, planned.stderr
    assert not (folder / "runs").exists()
    return json.loads(planned.stdout)


@pytest.mark.parametrize(
    "recipe", [one for one in RECIPES if "--dry-run" in (one / "README.md").read_text()], ids=lambda path: path.name
)
def test_the_dry_run_of_its_readme_plans_its_processes(recipe, tmp_path):
    planned = dry_run_of(f"recipes/{recipe.name}/README.md", recipe / "config.toml", tmp_path)
    assert planned["processes"] == launch_of(recipe)["num_processes"]
    assert planned["memory"]["peak_mib"] > 0


def test_the_dry_run_of_replicas_plans_sixteen_gpus(tmp_path):
    planned = dry_run_of("docs/engines/moe-and-muon.md", ROOT / "05-qwen3-8b-fsdp2" / "config.toml", tmp_path)
    assert planned["processes"] == 16
