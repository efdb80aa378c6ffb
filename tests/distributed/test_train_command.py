"""`recompose train` in two processes: one stage, one voice, and the weights that one process would have."""

from __future__ import annotations

import importlib.util
import json
import math
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from composer_replication.config import Config
from composer_replication.pipeline import run_stage
from composer_replication.progress import Silent
from composer_replication.records import digest_of
from composer_replication.runs import Run
from composer_replication.training.models.loading import load_saved_policy
from composer_replication.training.stored.records import TrainingStep

from .comparison import relative
from .launch import REPOSITORY, free_port, run_module, run_pair

TIMEOUT_S = 240
HAS_PEFT = importlib.util.find_spec("peft") is not None
STEPS = 4
# No rollout of this policy earns anything, so the stored traces alone decide: two processes with two traces each read
# what one process with four reads. The learning rate makes each step much larger than what rounding leaves.
CONFIG = {
    "seed": 3,
    "warmup": {"steps": 2, "batch_size": 4},
    "ingestion": {"rollouts": 8},
    "training": {
        "steps": STEPS, "prompts_per_step": 2, "group_size": 2, "traces_per_step": 2, "max_turn_tokens": 16,
        "gradient_ratio_cap": None, "checkpoint_every": 2, "learning_rate": 1e-2, "beta_replay": 1.0,
    },
}  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """As the launched processes have it."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """A run with every stage before training."""
    run = Run.start(tmp_path_factory.mktemp("runs") / "prepared", Config.model_validate(CONFIG))
    for noun in ("policy", "ingestion", "sites", "hints", "replay", "pairs"):
        run_stage(run, noun, Silent())
    assert run.stage("pairs").counts["pairs"] > 0
    return run.path


@pytest.fixture(scope="module")
def launched(prepared):
    """The run after `accelerate launch`, and what that said. Accelerate starts several processes where it is told of
    GPUs; without any, they are on the CPU."""
    path = shutil.copytree(prepared, prepared.parent / "launched")
    done = subprocess.run(
        [sys.executable, "-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes", "2",
         "--num_machines", "1", "--mixed_precision", "no", "--dynamo_backend", "no",
         "--main_process_port", str(free_port()), "-m", "composer_replication", "train", str(path), "--json"],
        cwd=REPOSITORY, env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True,
        timeout=TIMEOUT_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    return path, done


@pytest.fixture(scope="module")
def called(prepared):
    """Folder of the runs, and how each call of each process ended."""
    folder = prepared.parent
    for name in ("again", "locked", "poisoned", "adapters", "sharded", "shards", "thin"):
        shutil.copytree(prepared, folder / name)
    for name in ("adapters", "thin"):
        change(folder / name, "hardware", lora_rank=4)
    shutil.rmtree(folder / "poisoned" / "policy")
    scenes = ["again.interrupted", "again", "locked.locked", "poisoned.poisoned"]
    scenes += ["adapters"] if HAS_PEFT else []
    # From here on the weights are shared.
    scenes += ["sharded.sharded", "shards.interrupted", "shards"]
    scenes += ["thin"] if HAS_PEFT else []
    run_module("tests.distributed.train_worker", [str(folder), *scenes], folder, TIMEOUT_S)
    ended = [json.loads((folder / f"ended-{rank}.json").read_text()) for rank in range(2)]
    return folder, [dict(zip(scenes, each, strict=True)) for each in ended]


@pytest.fixture(scope="module")
def alone(prepared):
    """The weights of one process with the traces of both."""
    path = shutil.copytree(prepared, prepared.parent / "alone")
    change(path, "training", traces_per_step=2 * CONFIG["training"]["traces_per_step"])
    run_stage(Run.open(path), "training", Silent())
    return flat(weights_of(path))


def change(run: Path, section: str, **settings: object) -> None:
    """As if the run had begun with these settings."""
    config = json.loads((run / "config.json").read_text())
    config[section] |= settings
    (run / "config.json").write_text(json.dumps(config))
    began = json.loads((run / "manifest.json").read_text())
    (run / "manifest.json").write_text(json.dumps(began | {"config_hash": digest_of(config)}))


def weights_of(run: Path) -> dict[str, torch.Tensor]:
    return load_file(run / "training" / "model" / "model.safetensors")


def flat(weights: dict[str, torch.Tensor]) -> torch.Tensor:
    return torch.cat([weights[name].flatten() for name in sorted(weights)])


def metric_lines(run: Path) -> list[dict]:
    return [json.loads(line) for line in (run / "training" / "metrics.jsonl").read_text().splitlines()]


def test_two_processes_leave_one_stage_and_speak_with_one_voice(launched):
    path, done = launched
    [line] = done.stdout.splitlines()
    assert json.loads(line)["steps"] == STEPS
    assert done.stderr.count("training: train with its channels") == 1
    steps = Run.open(path).stage("training").read(TrainingStep)
    assert [step.step for step in steps] == list(range(1, STEPS + 1))
    assert all(
        math.isfinite(value) for step in steps for value in (step.policy, step.grad_norm, step.channels["replay"])
    )
    lines = [line for line in metric_lines(path) if "grad_norm" in line]
    assert [line["step"] for line in lines] == list(range(1, STEPS + 1))
    assert not (path / "training" / "scratch").exists()
    assert load_saved_policy(path / "training" / "model", "tiny").model.num_parameters() > 0


def test_the_step_is_shared_and_not_doubled(launched):
    path, _ = launched
    [summary] = [line for line in metric_lines(path) if "train_runtime" in line]
    rollouts = CONFIG["training"]["prompts_per_step"] * CONFIG["training"]["group_size"] * STEPS
    assert summary["train_samples_per_second"] * summary["train_runtime"] == pytest.approx(rollouts, rel=1e-2)


def test_two_processes_train_as_one(launched, prepared, alone):
    start = flat(load_file(prepared / "policy" / "model" / "model.safetensors"))
    assert relative(alone, start) > 0.05
    assert relative(flat(weights_of(launched[0])), alone) < 1e-5


def test_both_processes_end_with_the_weights_that_are_saved(called):
    folder, _ = called
    for name in ("again", *(["adapters", "thin"] if HAS_PEFT else []), "sharded"):
        saved = weights_of(folder / name)
        for rank in range(2):
            held = load_file(folder / f"{name}-{rank}.safetensors")
            assert all(torch.equal(saved[key], held[key]) for key in saved), (name, rank)


def test_an_interrupted_run_goes_on_to_the_same_bits(called, launched):
    folder, ended = called
    assert [each["again.interrupted"] for each in ended] == [["PlugPulledError"]] * 2
    assert [each["again"] for each in ended] == [[]] * 2
    assert torch.equal(flat(weights_of(folder / "again")), flat(weights_of(launched[0])))
    steps = [line["step"] for line in metric_lines(folder / "again") if "grad_norm" in line]
    assert steps == list(range(1, STEPS + 1))


def test_a_number_that_is_missing_in_one_process_stops_both(called):
    """The run had no policy either: the main process made it while the other one waited."""
    folder, (first, second) = called
    kind, code, message = first["poisoned.poisoned"]
    assert (kind, code) == ("RecomposeError", 1)
    assert "is not a finite number" in message
    assert second["poisoned.poisoned"][:2] == ["ToldElsewhereError", 1]
    run = Run.open(folder / "poisoned")
    assert run.stage("policy").is_done and not run.stage("training").is_done
    alarms = (run.path / "training" / "alarms.jsonl").read_text().splitlines()
    assert [json.loads(line)["name"] for line in alarms] == ["not_finite"]


@pytest.mark.skipif(not HAS_PEFT, reason="peft is not installed")
def test_adapters_are_merged_into_one_model(called, prepared):
    folder, ended = called
    assert [each["adapters"] for each in ended] == [[]] * 2
    start, trained = load_file(prepared / "policy" / "model" / "model.safetensors"), weights_of(folder / "adapters")
    assert start.keys() == trained.keys()
    assert relative(flat(trained), flat(start)) > 1e-3


def test_before_weights_are_shared_only_the_main_process_holds_them(called):
    folder, _ = called
    held = [json.loads((folder / f"held-{rank}.json").read_text()) for rank in range(2)]
    assert all(held[0]) and held[0] and len(held[1]) == len(held[0])
    assert not any(held[1])


@pytest.mark.skipif(not HAS_PEFT, reason="peft is not installed")
def test_adapters_of_shared_weights_are_merged_as_those_of_whole_ones(called):
    folder, ended = called
    assert [each["thin"] for each in ended] == [[]] * 2
    assert relative(flat(weights_of(folder / "thin")), flat(weights_of(folder / "adapters"))) < 1e-5
    files = [folder / name / "training" / "adapters" / "adapter_model.safetensors" for name in ("adapters", "thin")]
    both = [load_file(file) for file in files]
    assert both[0].keys() == both[1].keys() and all("lora_" in name for name in both[0])
    assert relative(flat(both[1]), flat(both[0])) < 1e-4


def test_shared_weights_are_gathered_into_one_model(called, alone):
    folder, ended = called
    assert [each["sharded.sharded"] for each in ended] == [[]] * 2
    policy = load_saved_policy(folder / "sharded" / "training" / "model", "tiny")
    assert type(policy.model).__name__ == "LlamaForCausalLM"
    assert relative(flat(weights_of(folder / "sharded")), alone) < 1e-5


def test_shared_weights_go_on_from_their_checkpoint(called):
    folder, ended = called
    assert [each["shards.interrupted"] for each in ended] == [["PlugPulledError"]] * 2
    assert [each["shards"] for each in ended] == [[]] * 2
    assert torch.equal(flat(weights_of(folder / "shards")), flat(weights_of(folder / "sharded")))


@pytest.mark.parametrize(
    ("missing", "arguments", "said"),
    [("pairs", [], "has no finished pairs stage"), (None, ["--selfcheck"], "the selfcheck is for one process")],
)
def test_what_cannot_be_trained_ends_both_processes_at_once_with_one_message(
    prepared, tmp_path, missing, arguments, said
):
    path = shutil.copytree(prepared, tmp_path / "run")
    if missing:
        shutil.rmtree(path / missing)
    command = ["-m", "composer_replication", "train", str(path), *arguments]
    first, second = run_pair(command, tmp_path, timeout_s=20)
    assert (first.code, second.code) == (2, 2)
    assert first.err.startswith("error: ") and said in first.err and len(first.err.splitlines()) == 1
    assert (first.out, second.out, second.err) == ("", "", "")


def test_a_run_in_use_is_refused_by_both_processes(called):
    _, (first, second) = called
    kind, code, message = first["locked.locked"]
    assert (kind, code) == ("UsageError", 2)
    assert "is in use by another process" in message
    assert second["locked.locked"][:2] == ["ToldElsewhereError", 2]
