"""A real model on one device: tokens per second of sampling, seconds per step, and peak memory beside the estimate.

    recompose model fetch qwen2.5-coder-1.5b
    python benchmarks/real_model.py [--json PATH]                  128 rollouts per step, LoRA, on a GPU
    python benchmarks/real_model.py --random [--json PATH]         its shape with random weights: nothing is fetched
    python benchmarks/real_model.py --small --rollouts 4 2         a small model on a CPU, to see that this file works

Sampling: 128 contexts of 512 tokens, turns of 257 tokens; a token's time is that of such a turn less that of a turn of
one, so reading the contexts does not count. `adapters` samples a model with adapters, which the sampler merges; `plain`
the same model without any; `through_adapters` reads every layer and its adapters, as sampling did before. Steps are
those of `recompose train` on toolbox tasks with channels 1 and 2. Prints one JSON object.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from composer_replication.cli.common import quiet_libraries
from composer_replication.config import Config, HardwareConfig, ModelConfig, TrainingConfig
from composer_replication.environments.toolbox.environment import open_toolbox
from composer_replication.objective import GrpoSettings, SdpoSettings
from composer_replication.progress import Silent
from composer_replication.training.machine import MIB, MemoryMeter, describe_machine

NAME = "qwen2.5-coder-1.5b"
SMALL = {"hidden_size": 128, "intermediate_size": 512, "num_hidden_layers": 4, "num_attention_heads": 4}
NEVER = -7


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=NAME)
    parser.add_argument("--random", action="store_true")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--rollouts", type=int, nargs=2, default=(16, 8), metavar=("PROMPTS", "GROUP"))
    parser.add_argument("--rollouts-per-device", type=int, default=16)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--turn-tokens", type=int, default=256)
    parser.add_argument("--context-tokens", type=int, default=512)
    parser.add_argument("--weights", default="bfloat16", choices=["bfloat16", "float32"])
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    quiet_libraries()
    config = settings(given)
    started = time.monotonic()
    policy = load(given, config)
    found: dict[str, Any] = {
        "model": "random" if given.random or given.small else given.model,
        "machine": describe_machine(),
        "parameters": sum(parameter.numel() for parameter in policy.model.parameters()),
        "load_s": round(time.monotonic() - started, 1),
        "sampling": sampling(policy, config, given),
    }
    del policy
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    found["training"] = training(given, config)
    text = json.dumps(found, indent=2)
    print(text)
    if given.json:
        given.json.write_text(text + "\n")


def settings(given: argparse.Namespace) -> Config:
    prompts, group = given.rollouts
    rows = prompts * group
    per_device = min(given.rollouts_per_device, rows)
    return Config(
        model=ModelConfig(name=given.model),
        training=TrainingConfig(
            steps=given.steps,
            prompts_per_step=prompts,
            group_size=group,
            learning_rate=1e-5,
            max_turn_tokens=given.turn_tokens if not given.small else 16,
        ),
        channels=(GrpoSettings(), SdpoSettings(weight=0.1, source="rollouts", teacher="ema")),
        hardware=HardwareConfig(
            weights=given.weights,
            rollouts_per_device=per_device,
            gradient_checkpointing=True,
            lora_rank=32,
            lora_alpha=64,
        ),
    )


def load(given: argparse.Namespace, config: Config) -> Any:
    from transformers import AutoConfig, AutoModelForCausalLM

    from composer_replication.training.models.loading import Policy, device_type, load_policy, tiny_tokenizer
    from composer_replication.training.models.shape import KNOWN_CONFIGS
    from composer_replication.training.models.tokens import ChatTokens

    environment = open_toolbox(config)
    if not (given.random or given.small):
        return load_policy(given.model, environment, 0, given.weights)
    tokens = ChatTokens(tiny_tokenizer(environment))
    known = {**KNOWN_CONFIGS[NAME], **(SMALL if given.small else {}), "max_position_embeddings": 4096}
    marks = {"pad_token_id": tokens.tokenizer.pad_token_id, "eos_token_id": tokens.tokenizer.eos_token_id}
    if given.small:
        known["vocab_size"] = len(tokens.tokenizer)
    shape = AutoConfig.for_model(**known, **marks, bos_token_id=None)
    torch.manual_seed(0)
    with torch.device(device_type()):
        model = AutoModelForCausalLM.from_config(shape, dtype=getattr(torch, given.weights))
    return Policy("random", model.eval(), tokens)


def sampling(policy: Any, config: Config, given: argparse.Namespace) -> dict[str, Any]:
    from composer_replication.training.rollouts.sampling import DynamicSampler
    from composer_replication.training.rollouts.static_sampling import StaticSampler
    from composer_replication.training.train import with_adapters

    batch, words = given.rollouts[0] * given.rollouts[1], policy.model.config.vocab_size
    length = 257 if not given.small else 33
    rng = random.Random(0)
    contexts = [[rng.randrange(10, words) for _ in range(given.context_tokens)] for _ in range(batch)]
    tokens: Any = SimpleNamespace(end_of_turn_id=NEVER, tokenizer=SimpleNamespace(pad_token_id=0))
    room = given.context_tokens + length

    def measured(sampler: Any) -> dict[str, Any]:
        token_s, whole_s = token_seconds(sampler, contexts, length)
        return {"tokens_per_s": round(batch / token_s), "turn_s": round(whole_s, 3)}

    found: dict[str, Any] = {"batch": batch, "context_tokens": given.context_tokens, "turn_tokens": length}
    found["plain"] = measured(StaticSampler(policy.model, tokens, batch, room))
    adapted = with_adapters(policy.model, config.hardware.lora_config()).eval()
    found["adapters"] = measured(StaticSampler(adapted, tokens, batch, room))
    found["through_adapters"] = measured(DynamicSampler(adapted, tokens, batch))
    adapted.unload()
    for name in ("adapters", "through_adapters"):
        found[f"{name}_to_plain"] = round(found[name]["tokens_per_s"] / found["plain"]["tokens_per_s"], 3)
    return found


def token_seconds(sampler: Any, contexts: list[list[int]], length: int) -> tuple[float, float]:
    """Of one more token for every context, and of a whole turn with its context."""
    generator = torch.Generator("cuda" if torch.cuda.is_available() else "cpu").manual_seed(0)

    def seconds(tokens: int) -> float:
        return timed(
            lambda: sampler.sample(
                list(range(len(contexts))), contexts, max_new_tokens=tokens, temperature=1.0, generator=generator
            )
        )

    for tokens in (1, length):
        seconds(tokens)
    pairs = [(seconds(length), seconds(1)) for _ in range(3)]
    return (
        statistics.median((long - short) / (length - 1) for long, short in pairs),
        statistics.median(long for long, _ in pairs),
    )


def timed(work: Any) -> float:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    started = time.perf_counter()
    work()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - started


class Steps(Silent):
    """When each step ended."""

    def __init__(self) -> None:
        self.times = [time.monotonic()]

    def step(self, done: int, total: int, detail: str = "") -> None:
        self.times.append(time.monotonic())
        print(f"step {done} of {total}: {detail}", file=sys.stderr, flush=True)


def training(given: argparse.Namespace, config: Config) -> dict[str, Any]:
    from composer_replication.training.backends.trl import rollouts as trl_rollouts
    from composer_replication.training.models.shape import shape_of
    from composer_replication.training.planning.memory import estimate_memory
    from composer_replication.training.planning.plan import Machine, slot_room, workload
    from composer_replication.training.train import train

    lengths: list[int] = []
    columns = trl_rollouts.rollout_columns

    def seen(rollouts: Any, name: str) -> Any:
        lengths.extend(len(rollout.prompt_ids) + len(rollout.completion_ids) for rollout in rollouts)
        return columns(rollouts, name)

    trl_rollouts.rollout_columns = seen
    meter, steps, environment = MemoryMeter(), Steps(), open_toolbox(config)
    policy = load(given, config)
    shape = shape_of(policy.model.config)
    with tempfile.TemporaryDirectory() as scratch:
        records = train(policy, config, environment, [], Path(scratch), steps)
    trl_rollouts.rollout_columns = columns
    machine = Machine(on_gpu=torch.cuda.is_available())
    work = workload(config, max(lengths), 0, machine, slot_room(config, environment, policy.tokens))
    estimate = estimate_memory(shape, config, work)
    took = [after - before for before, after in zip(steps.times, steps.times[1:], strict=False)]
    peak = meter.peak_bytes()
    return {
        "rollouts_per_step": given.rollouts[0] * given.rollouts[1],
        "rollouts_per_device": config.hardware.rollouts_per_device,
        "longest_rollout_tokens": max(lengths),
        "mean_rollout_tokens": round(statistics.mean(lengths)),
        "seconds_per_step": [round(each, 2) for each in took],
        "median_seconds_after_the_first": round(statistics.median(took[1:] or took), 2),
        "rewards": [round(record.reward, 3) for record in records if record.reward is not None],
        "peak_mib": round(peak / MIB, 1),
        "estimate_mib": round(estimate.peak_bytes / MIB, 1),
        "peak_to_estimate": round(peak / estimate.peak_bytes, 3),
        "parts_mib": [[part.name, part.when, round(part.bytes / MIB, 1)] for part in estimate.parts],
    }


if __name__ == "__main__":
    main()
