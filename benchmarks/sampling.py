"""Milliseconds per sampled token on one device: the plain sampler against the one with a cache across turns and graphs.

    python benchmarks/sampling.py [--json FILE] [--kernels]   SmolLM2-135M's shape with random weights, on a GPU
    python benchmarks/sampling.py --small [--json FILE]       a small model on a CPU, without graphs

Prompts of 200 to 400 tokens, turns of 40, observations of 10 to 30. A token's time is that of a turn of 41 tokens less
that of a turn of one, over 40: everything but reading the context. `turns` is the time of four whole turns. Exactness
is that of greedy turns against the plain sampler in float32; log-probabilities are compared while the ids agree.
Needs torch and transformers only.
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
import transformers
from transformers import LlamaConfig, LlamaForCausalLM

from composer_replication.training.rollouts.sampling import DynamicSampler
from composer_replication.training.rollouts.static_sampling import StaticSampler

TURNS, TURN_TOKENS, MAX_TOKENS = 4, 40, 640
REPEATS = 3
NEVER = -7
TOKENS: Any = SimpleNamespace(end_of_turn_id=NEVER, tokenizer=SimpleNamespace(pad_token_id=0))


def build(small: bool, device: str) -> LlamaForCausalLM:
    torch.manual_seed(0)
    shape = (64, 2, 4, 2, 128, 512) if small else (576, 30, 9, 3, 1536, 49152)
    hidden, layers, heads, key_heads, inner, words = shape
    config = LlamaConfig(
        vocab_size=words,
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=key_heads,
        intermediate_size=inner,
        max_position_embeddings=2048,
        tie_word_embeddings=True,
        initializer_range=0.04,
        pad_token_id=0,
    )
    with torch.device(device):
        return LlamaForCausalLM(config).eval()


def prompts(batch: int, words: int, rng: random.Random) -> list[list[int]]:
    return [[rng.randrange(1, words) for _ in range(rng.randint(200, 400))] for _ in range(batch)]


def seconds(work: Callable[[], Any], device: str) -> float:
    if device == "cuda":
        torch.cuda.synchronize()
    started = time.perf_counter()
    work()
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - started


def turn(sampler: Any, contexts: list[list[int]], length: int, generator: torch.Generator) -> list[Any]:
    slots = list(range(len(contexts)))
    return sampler.sample(slots, contexts, max_new_tokens=length, temperature=1.0, generator=generator)


def token_ms(sampler: Any, contexts: list[list[int]], device: str) -> float:
    generator = torch.Generator(device).manual_seed(0)
    for length in (1, TURN_TOKENS + 1):
        turn(sampler, contexts, length, generator)
    times = []
    for _ in range(REPEATS):
        long = seconds(lambda: turn(sampler, contexts, TURN_TOKENS + 1, generator), device)
        short = seconds(lambda: turn(sampler, contexts, 1, generator), device)
        times.append((long - short) / TURN_TOKENS * 1000)
    return statistics.median(times)


def whole_turns_s(sampler: Any, contexts: list[list[int]], device: str, words: int) -> float:
    """Four turns from the prompts on, with weights taken from the policy first as after a training step."""

    def play() -> None:
        rng = random.Random(1)
        generator = torch.Generator(device).manual_seed(0)
        held = [list(context) for context in contexts]
        for _ in range(TURNS):
            for context, sampled in zip(held, turn(sampler, held, TURN_TOKENS, generator), strict=True):
                context += sampled.ids + [rng.randrange(1, words) for _ in range(rng.randint(10, 30))]

    return seconds(play, device)


def exactness(model: LlamaForCausalLM, device: str, words: int) -> dict[str, Any]:
    rng = random.Random(2)
    held = prompts(16, words, rng)
    plain = DynamicSampler(model, TOKENS, 16)
    found: dict[str, Any] = {}
    samplers = {"float32": torch.float32, "bfloat16": torch.bfloat16}
    for name, dtype in samplers.items():
        sampler = StaticSampler(model, TOKENS, 16, MAX_TOKENS, dtype=dtype)
        contexts = [list(context) for context in held]
        equal, total, worst = 0, 0, 0.0
        differences: list[float] = []
        for _ in range(3):
            options: dict[str, Any] = {"max_new_tokens": TURN_TOKENS, "temperature": 0.0}
            mine = sampler.sample(list(range(16)), contexts, **options)
            theirs = plain.sample(list(range(16)), contexts, **options)
            for context, one, other in zip(contexts, mine, theirs, strict=True):
                total += 1
                equal += one.ids == other.ids
                shared = next(
                    (place for place, (a, b) in enumerate(zip(one.ids, other.ids, strict=False)) if a != b),
                    len(one.ids),
                )
                gaps = [abs(a - b) for a, b in zip(one.logprobs[:shared], other.logprobs[:shared], strict=True)]
                differences += gaps
                worst = max([worst, *gaps])
                context += other.ids + [rng.randrange(1, words) for _ in range(rng.randint(10, 30))]
        found[name] = {
            "greedy_turns_equal": f"{equal}/{total}",
            "logprob_gap_max": worst,
            "logprob_gap_mean": statistics.mean(differences),
        }
    return found


def kernels(sampler: StaticSampler, contexts: list[list[int]]) -> list[str]:
    from torch.profiler import ProfilerActivity, profile

    generator = torch.Generator("cuda").manual_seed(0)
    with profile(activities=[ProfilerActivity.CUDA]) as profiled:
        turn(sampler, contexts, 9, generator)
        torch.cuda.synchronize()
    rows = sorted(profiled.key_averages(), key=lambda row: -row.self_device_time_total)
    total = sum(row.self_device_time_total for row in rows)
    return [f"total {total / 1000:.2f} ms"] + [
        f"{row.self_device_time_total / 1000:.3f} ms  x{row.count}  {row.key[:110]}" for row in rows[:14]
    ]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--kernels", action="store_true")
    parser.add_argument("--batches", type=int, nargs="+", default=[128, 256, 512])
    options = parser.parse_args()
    device = "cpu" if options.small else "cuda"
    torch.backends.cuda.enable_cudnn_sdp(False)  # as the project does: it plans anew for every shape
    model = build(options.small, device)
    words = model.config.vocab_size
    report: dict[str, Any] = {
        "device": platform.machine() if device == "cpu" else torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "batches": {},
    }

    def say(name: str, value: Any) -> None:
        print(f"{name}: {value}", flush=True)

    report["exactness"] = exactness(model, device, words)
    say("exactness", report["exactness"])
    for batch in (4,) if options.small else options.batches:
        contexts = prompts(batch, words, random.Random(0))
        row: dict[str, Any] = {}
        static = StaticSampler(model, TOKENS, batch, MAX_TOKENS)
        generator = torch.Generator(device).manual_seed(0)
        row["static_first_turn_s"] = seconds(partial(turn, static, contexts, TURN_TOKENS, generator), device)
        row["refresh_s"] = seconds(partial(static.refresh, model), device)
        row["static_read_s"] = seconds(partial(turn, static, contexts, 1, generator), device)
        row["static_token_ms"] = token_ms(static, contexts, device)
        static.refresh(model)
        row["static_turns_s"] = whole_turns_s(static, contexts, device, words)
        static.refresh(model)
        row["static_turns_again_s"] = whole_turns_s(static, contexts, device, words)
        say(f"batch {batch} static", row)
        if options.kernels:
            say("kernels", "\n" + "\n".join(kernels(static, contexts)))
        plain = DynamicSampler(model, TOKENS, batch)
        with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
            row["dynamic_turns_s"] = whole_turns_s(plain, contexts, device, words)
        say(f"batch {batch}", row)
        report["batches"][batch] = row
        del static
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
