"""The memory estimate of `recompose train --dry-run` beside what training steps really take, on this machine.

    python benchmarks/memory.py [--json PATH]
    python benchmarks/memory.py --recipes        # only estimates, for the machines that the recipes name

Every case runs in a process of its own: a random model, toolbox rollouts, and steps of the real trainer with channel 2
on fresh rollouts, or the rollouts alone, as `ingest` and `evaluate` play them. On a CPU the measure is resident memory
beyond the loaded libraries; on a GPU the allocator's peak.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from composer_replication.environments.protocol import EpisodeLimits
from composer_replication.environments.toolbox.environment import open_toolbox
from composer_replication.environments.toolbox.oracle import vocabulary
from composer_replication.training.models.shape import KNOWN_CONFIGS

SMOLLM2_SHAPE = {key: value for key, value in KNOWN_CONFIGS["smollm2"].items() if key != "model_type"}
SMALL_SHAPE = {
    **SMOLLM2_SHAPE,
    "vocab_size": 8192,
    "hidden_size": 512,
    "num_hidden_layers": 8,
    "num_attention_heads": 8,
    "num_key_value_heads": 8,
}
CASES: dict[str, dict[str, Any]] = {
    "tiny": {"rollouts": (16, 8)},
    "tiny, live teacher": {"rollouts": (16, 8), "teacher": "live"},
    "SmolLM2's shape": {"shape": SMOLLM2_SHAPE, "rollouts": (2, 4)},
    "SmolLM2's shape, live teacher": {"shape": SMOLLM2_SHAPE, "rollouts": (2, 4), "teacher": "live"},
    "SmolLM2's shape, twice the rollouts": {"shape": SMOLLM2_SHAPE, "rollouts": (4, 4)},
    "SmolLM2's shape, checkpointing": {"shape": SMOLLM2_SHAPE, "rollouts": (4, 4), "checkpointing": True},
    "small, trained": {"shape": SMALL_SHAPE, "rollouts": (2, 4)},
    "small, played": {"shape": SMALL_SHAPE, "rollouts": (8, 8), "plays": True},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--case", choices=CASES, help="Only this one, in this process.")
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--recipes", action="store_true")
    options = parser.parse_args()
    if options.recipes:
        estimate_recipes()
        return
    if options.case:
        print(json.dumps(measure(CASES[options.case], options.steps)))
        return
    results = {}
    print("| case | rollouts | longest, tokens | estimate, MiB | measured, MiB | measured / estimate |")
    print("|---|---|---|---|---|---|")
    for name in CASES:
        command = [sys.executable, __file__, "--case", name, "--steps", str(options.steps)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603
        found = results[name] = json.loads(done.stdout.splitlines()[-1])
        print(
            f"| {name} | {found['rollouts']} | {found['row_tokens']} | {found['estimate_mib']:,.0f} | "
            f"{found['measured_mib']:,.0f} | {found['measured_mib'] / found['estimate_mib']:.2f} |",
            flush=True,
        )
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n")


def estimate_recipes() -> None:
    """At their worst: rollouts at the turn limit (prompts counted as bytes / 4), stored rows at `max_tokens`."""
    import tomllib

    import yaml

    from composer_replication.config import Config
    from composer_replication.training.models.shape import find_config, shape_of
    from composer_replication.training.planning.memory import estimate_memory
    from composer_replication.training.planning.plan import Machine, rollout_lengths, slot_room, workload

    print("| recipe | processes | peak per device, GiB | largest parts, GiB |")
    print("|---|---|---|---|")
    for path in sorted((Path(__file__).parents[1] / "recipes").glob("*/config.toml")):
        config = Config.model_validate(tomllib.loads(path.read_text()))
        environment: Any = Tasks(config) if config.environment.name == "code" else open_toolbox(config)
        launch = path.with_name("accelerate.yaml")
        given = yaml.safe_load(launch.read_text()) if launch.exists() else {"num_processes": 1}
        machine = Machine(
            given["num_processes"], given.get("distributed_type") == "FSDP", "cpu" not in path.parent.name
        )
        if config.model.name == "tiny":
            continue
        shape = shape_of(smollm2() if config.model.name == "smollm2" else find_config(config.model.name))
        longest = max(rollout_lengths(config, environment, [], None))
        room = slot_room(config, environment, None)
        work = workload(config, longest, config.training.max_tokens, machine, room)
        found = estimate_memory(shape, config, work)
        parts = sorted(found.parts, key=lambda part: -part.bytes)[:4]
        listed = ", ".join(f"{part.name} {part.bytes / 2**30:.1f}" for part in parts)
        print(f"| {path.parent.name} | {machine.processes} | {found.peak_bytes / 2**30:.1f} | {listed} |")


class Tasks:
    """Code tasks that nobody has made yet: statements of 4 kB."""

    def __init__(self, config: Any) -> None:
        self.limits = EpisodeLimits(completion_tokens=config.environment.completion_tokens)

    def tasks(self, split: str) -> list[Any]:
        return [SimpleNamespace(messages=[{"role": "user", "content": "x" * 4096}])]


def smollm2() -> Any:
    from transformers import LlamaConfig

    return LlamaConfig(**SMOLLM2_SHAPE)


def measure(case: dict[str, Any], steps: int) -> dict[str, Any]:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    from composer_replication.cli.common import quiet_libraries
    from composer_replication.config import Config, HardwareConfig, TrainingConfig
    from composer_replication.objective import GrpoSettings, SdpoSettings, TrdpoSettings
    from composer_replication.progress import Silent
    from composer_replication.training.machine import MemoryMeter
    from composer_replication.training.models.loading import Policy
    from composer_replication.training.models.shape import shape_of
    from composer_replication.training.models.tiny import build_model, build_tokenizer
    from composer_replication.training.models.tokens import ChatTokens
    from composer_replication.training.planning.memory import estimate_memory, estimate_playing
    from composer_replication.training.planning.plan import Machine, slot_room, workload
    from composer_replication.training.train import train

    quiet_libraries()
    prompts, group = case["rollouts"]
    training = TrainingConfig(
        steps=steps,
        prompts_per_step=prompts,
        group_size=group,
        learning_rate=1e-6,
    )
    channels = (GrpoSettings(), SdpoSettings(source="rollouts", teacher=case.get("teacher", "ema")), TrdpoSettings())
    hardware = HardwareConfig(gradient_checkpointing=case.get("checkpointing", False))
    config = Config(training=training, hardware=hardware, channels=channels)
    tokens = ChatTokens(build_tokenizer(vocabulary(config.toolbox)))
    meter = MemoryMeter()
    small = {"pad_token_id": tokens.tokenizer.pad_token_id, "eos_token_id": tokens.tokenizer.eos_token_id}
    shape = LlamaConfig(**case["shape"], **small, bos_token_id=None) if "shape" in case else None
    model = LlamaForCausalLM(shape).eval() if shape else build_model(tokens.tokenizer, 0)
    policy = Policy("random", model, tokens)
    longest = longest_rollout(policy, config)
    environment = open_toolbox(config)
    work = workload(
        config, longest, 0, Machine(on_gpu=torch.cuda.is_available()), slot_room(config, environment, tokens)
    )
    if case.get("plays"):
        estimate = estimate_playing(shape_of(model.config), config, work)
    else:
        estimate = estimate_memory(shape_of(model.config), config, work)
        with tempfile.TemporaryDirectory() as scratch:
            train(policy, config, environment, [], Path(scratch), Silent())
    return {
        "rollouts": prompts * group,
        "row_tokens": longest,
        "estimate_mib": round(estimate.peak_bytes / 2**20, 1),
        "measured_mib": round(meter.peak_bytes() / 2**20, 1),
    }


def longest_rollout(policy: Any, config: Any) -> int:
    """A random model writes no call, so its first turn is also its last: such rollouts are shorter than planned."""
    from composer_replication.training.rollouts.playing import sample_rollouts
    from composer_replication.training.train import training_tasks

    environment, settings = open_toolbox(config), config.training
    tasks = training_tasks(environment, config)
    step = tasks[: settings.prompts_per_step]
    played = sample_rollouts(policy, environment, config, [task for task in step for _ in range(settings.group_size)])
    return max(len(one.prompt_ids) + len(one.completion_ids) for one in played)


if __name__ == "__main__":
    main()
