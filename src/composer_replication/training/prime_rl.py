"""A run's settings as prime-rl's `rl.toml`: the same taskset and channel 1, with our loss by its import path.

Not run here: prime-rl needs Python 3.12, vLLM and CUDA. Its keys were read in its sources at 559b447 (0.8.0).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, cast

from composer_replication.config import Config
from composer_replication.errors import UsageError
from composer_replication.objective import GrpoSettings

LOSS = "composer_replication.losses.prime_rl.dapo"
TAKEN: dict[str, set[str]] = {
    "model": {"name"},
    "environment": {"name", "taskset", "url", "python", "settings"},
    "training": {
        "steps", "max_tokens", "prompts_per_step", "group_size", "temperature", "max_turn_tokens", "learning_rate",
    },
    "hardware": set(),
    "sampling": set(),
}  # fmt: skip
"""Settings that have a place in the file, or say where it comes from, by section."""
BARE_KEY = re.compile("[A-Za-z0-9_-]+")


def prime_toml(config: Config) -> str:
    training, grpo = config.training, config.channel(GrpoSettings)
    head = ["NOT RUN: written by recompose for prime-rl 0.8; start it with `uv run rl @ rl.toml`."]
    head += [f"Left out: {line}" for line in left_out(config)]
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


def left_out(config: Config) -> list[str]:
    """What the run has and the file has not: channels, the warm-up, and settings that are not at their defaults."""
    grpo = config.channel(GrpoSettings)
    names = [channel.name for channel in config.channels if channel.weight and channel.name != "grpo"]
    lines = [f"channel {name}, prime-rl has no hook for it" for name in names]
    if config.warmup.steps:
        lines.append(f"the warm-up of {config.warmup.steps} steps; prime-rl starts at {config.model.name} itself")
    changed = {"channels.grpo": grpo.model_dump(mode="json", exclude_defaults=True, exclude={"clip_low", "clip_high"})}
    for section, taken in TAKEN.items():
        changed[section] = getattr(config, section).model_dump(mode="json", exclude_defaults=True, exclude=taken)
    taken = {"verifiers": "taskset", "openenv": "tasks"}.get(config.environment.name)
    own = config.environment.settings.items()
    changed["environment.settings"] = {key: value for key, value in own if key != taken}
    lines += [f"{name}.{key} = {json.dumps(value)}" for name, of in changed.items() for key, value in of.items()]
    return [*lines, f"seed = {config.seed}"]


def _env(config: Config) -> dict[str, Any]:
    """As verifiers takes it: a taskset of its own, or an OpenEnv server, which any environment of ours can be."""
    environment = config.environment
    local = {"harness": {"id": "null"}, "runtime": {"type": "subprocess"}}
    needed = {"verifiers": "taskset", "openenv": "url"}.get(environment.name)
    if needed and not getattr(environment, needed):
        raise UsageError(
            f"the run's environment is {environment.name} and names no {needed}",
            f"set {needed} under [environment] and start a run with it",
        )
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
    """TOML: plain keys first, then tables by their full names; inside a list all is inline. Python writes none."""
    lines = [f"{_key(key)} = {_value(value)}" for key, value in tree.items() if not isinstance(value, Mapping)]
    for key, value in tree.items():
        if isinstance(value, Mapping):
            name = f"{path}{_key(key)}"
            lines += ["", f"[{name}]", *_table(cast("Mapping[str, Any]", value), f"{name}.")]
    return lines


def _key(name: str) -> str:
    return name if BARE_KEY.fullmatch(name) else _value(name)


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        pairs = cast("Mapping[str, Any]", value).items()
        return "{ " + ", ".join(f"{_key(key)} = {_value(each)}" for key, each in pairs if each is not None) + " }"
    if isinstance(value, list):
        return f"[{', '.join(map(_value, cast('list[Any]', value)))}]"
    # JSON leaves DEL as it is, which TOML forbids.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
