"""Weights that are kept in bfloat16 and trained themselves: how many of them a step can move at all."""

from __future__ import annotations

import math
from typing import Any

import torch

from composer_replication.config import Config
from composer_replication.progress import Progress

BITS = 8
"""Of bfloat16's significand, the hidden one included: a number's neighbours lie 2 ** (exponent - 7) away."""
ENOUGH = 0.5


@torch.no_grad()
def movable_share(model: Any, learning_rate: float) -> float:
    """Of the trainable entries those that a step of Adam's usual size, the learning rate, does not round away."""
    # Such a step is at least half the distance to the next number if the exponent is at most this.
    largest = math.floor(math.log2(learning_rate)) + BITS
    moving = total = 0
    for parameter in model.parameters():
        if parameter.requires_grad:
            moving += int((parameter.abs() < 2.0 ** (largest + 1)).sum())
            total += parameter.numel()
    return moving / total if total else 1.0


def warn_of_stuck_weights(model: Any, config: Config, progress: Progress) -> None:
    if config.hardware.weights != "bfloat16" or config.hardware.lora_rank:
        return
    share = movable_share(model, config.training.learning_rate)
    if share < ENOUGH:
        progress.note(
            f"weights in bfloat16 at a learning rate of {config.training.learning_rate:g}: {share:.1%} of the entries "
            'can move, the others round each step away; set hardware.weights = "float32", or hardware.lora_rank'
        )
