"""Settings that fit a machine: the first of a few ever more frugal ones whose peak is within its memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from composer_replication.config import Config
from composer_replication.objective import SdpoSettings, TrdpoSettings
from composer_replication.settings import with_changes

from ..models.shape import ModelShape
from .memory import estimate_memory
from .plan import Machine, workload

USABLE_SHARE = 0.85
"""Estimates of activations err by some percent, and a machine has other work."""
LORA_LEARNING_RATE = 2e-5
PROMPT_TOKENS = 2048
"""Room for the statement of a code task; a toolbox episode is shorter as a whole."""
TOOLBOX_TOKENS = 512
PARTS = {
    True: [f"hardware.rollouts_per_device={rows}" for rows in (8, 4, 2, 1)],
    False: [f"training.traces_per_step={rows}" for rows in (4, 2, 1)],
}
LAST = {
    True: [
        *(f"training.prompts_per_step={prompts}" for prompts in (2, 1)),
        *(f"environment.completion_tokens={tokens}" for tokens in (4096, 2048)),
    ],
    False: [f"training.max_tokens={tokens}" for tokens in (8192, 4096, 2048, 1024)],
}
"""By whether there are rollouts: what is made smaller, at no loss and, last, at one."""


class Fitted(NamedTuple):
    config: Config
    peak_bytes: int | None
    """None where the size of the model is not known; the settings are then the most frugal."""
    fits: bool


def fit(config: Config, shape: ModelShape | None, memory_bytes: int, on_gpu: bool) -> Fitted:
    found = Fitted(config, None, False)
    for candidate in _ever_more_frugal(config):
        if shape is None:
            found = Fitted(candidate, None, False)
            continue
        work = workload(candidate, _rollout_tokens(candidate), _stored_tokens(candidate), Machine(on_gpu=on_gpu))
        peak = estimate_memory(shape, candidate, work).peak_bytes
        found = Fitted(candidate, peak, peak <= memory_bytes * USABLE_SHARE)
        if found.fits:
            break
    return found


def _ever_more_frugal(config: Config) -> Iterator[Config]:
    yield config
    config = with_changes(config, ["hardware.gradient_checkpointing=true"])
    yield config
    for change in PARTS[config.training.rollouts]:
        config = with_changes(config, [change])
        yield config
    adapters = ["hardware.lora_rank=16", f"training.learning_rate={LORA_LEARNING_RATE}"]
    config = with_changes(config, ["hardware.weights=bfloat16", *adapters])
    yield config
    for change in LAST[config.training.rollouts]:
        config = with_changes(config, [change])
        yield config


def _rollout_tokens(config: Config) -> int:
    if config.environment.name == "toolbox":
        return TOOLBOX_TOKENS
    return config.environment.completion_tokens + PROMPT_TOKENS


def _stored_tokens(config: Config) -> int:
    """Of the longest stored trace; none where all channels learn from fresh rollouts."""
    fresh = config.training.rollouts and config.channel(SdpoSettings).source == "rollouts"
    return 0 if fresh and not config.channel(TrdpoSettings).weight else config.training.max_tokens


def known_shape(name: str) -> ModelShape | None:
    """Of a model that lies here or is known by name. Nothing is downloaded."""
    from ..models.embedded import place_of
    from ..models.shape import find_config, shape_of

    found: Any = find_config(place_of(name), name)
    return shape_of(found) if found else None
