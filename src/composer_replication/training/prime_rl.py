"""A run's settings as prime-rl's `rl.toml`: the same taskset and channel 1, with our loss by its import path.

Not run here: prime-rl needs Python 3.12, vLLM and CUDA. Its keys were read in its sources at 559b447 (0.8.0).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from composer_replication.config import Config
from composer_replication.errors import UsageError
from composer_replication.objective import GrpoSettings

LOSS = "composer_replication.losses.prime_rl.dapo"


def prime_toml(config: Config) -> str:
    training, grpo = config.training, config.channel(GrpoSettings)
    left_out = [channel.name for channel in config.channels if channel.weight and channel.name != "grpo"]
    head = ["NOT RUN: written by recompose for prime-rl 0.8; start it with `uv run rl @ rl.toml`."]
    if left_out:
        head.append(f"Left out, as prime-rl has no hook for them: {', '.join(left_out)}.")
    tree = {
        "max_steps": training.steps,
        "seq_len": training.max_tokens,
        "model": {"name": config.model.name},
        "orchestrator": {
            "batch_size": training.prompts_per_step * training.group_size,
            "group_size": training.group_size,
            "algo": {"type": "grpo"},
            "train": {
                "sampling": {
                    "temperature": training.temperature,
                    "max_completion_tokens": training.max_turn_tokens,
                },
                "source": [{"name": "train", "env": _env(config)}],
            },
        },
        "trainer": {
            "optim": {"lr": training.learning_rate},
            "loss": {
                "type": "custom",
                "import_path": LOSS,
                "kwargs": {"clip_low": grpo.clip_low, "clip_high": grpo.clip_high},
            },
        },
        "inference": {},
    }
    return "".join(f"# {line}\n" for line in head) + "\n".join(_table(tree, "")) + "\n"


def _env(config: Config) -> dict[str, Any]:
    """As verifiers takes it: a taskset of its own, or an OpenEnv server, which any environment of ours can be."""
    environment = config.environment
    local = {"harness": {"id": "null"}, "runtime": {"type": "subprocess"}}
    if environment.name == "verifiers":
        return {"taskset": {"id": environment.taskset, **environment.settings.get("taskset", {})}, "agent": local}
    if environment.name == "openenv":
        seeds = [{"seed": number} for number in range(environment.settings.get("tasks", 64))]
        return {"taskset": {"id": "openenv", "base_url": environment.url, "resets": seeds}, "player": local}
    raise UsageError(
        f"prime-rl plays tasksets of verifiers, and {environment.name} is none",
        'recompose env serve, then [environment] name = "openenv" with its url',
    )


def _table(tree: Mapping[str, Any], path: str) -> list[str]:
    """TOML: plain keys first, then tables and lists of tables by their full names. Python writes none itself."""
    lines = [f"{key} = {_value(value)}" for key, value in tree.items() if not _is_table(value)]
    for key, value in tree.items():
        name = f"{path}{key}"
        if isinstance(value, Mapping):
            lines += ["", f"[{name}]", *_table(cast("Mapping[str, Any]", value), f"{name}.")]
        elif _is_table(value):
            for each in value:
                lines += ["", f"[[{name}]]", *_table(each, f"{name}.")]
    return lines


def _is_table(value: Any) -> bool:
    return isinstance(value, Mapping) or (isinstance(value, list) and "env" in value[0])


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        pairs = cast("Mapping[str, Any]", value).items()
        return "{ " + ", ".join(f"{key} = {_value(each)}" for key, each in pairs) + " }"
    if isinstance(value, list):
        return f"[{', '.join(map(_value, cast('list[Any]', value)))}]"
    return json.dumps(value, ensure_ascii=False)
