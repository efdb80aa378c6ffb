"""Losses and data composed into training. Importing this package does not import torch; its classes do."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .backends.trl.rollouts import EnvironmentRollouts, prompts_of
    from .backends.trl.trainer import ComposerReplicationTrainer
    from .channels import SelfDistillation
    from .lessons.online_sites import HintedTurn, TraceHinter
    from .models.loading import load_policy
    from .rollouts.playing import roll_out
    from .stored.batches import StoredBatches
    from .stored.collator import ComposerDataCollator

__all__ = [
    "ComposerDataCollator",
    "ComposerReplicationTrainer",
    "EnvironmentRollouts",
    "HintedTurn",
    "SelfDistillation",
    "StoredBatches",
    "TraceHinter",
    "load_policy",
    "prompts_of",
    "roll_out",
]
_PLACES = {
    "ComposerDataCollator": "stored.collator",
    "ComposerReplicationTrainer": "backends.trl.trainer",
    "EnvironmentRollouts": "backends.trl.rollouts",
    "HintedTurn": "lessons.online_sites",
    "SelfDistillation": "channels",
    "StoredBatches": "stored.batches",
    "TraceHinter": "lessons.online_sites",
    "load_policy": "models.loading",
    "prompts_of": "backends.trl.rollouts",
    "roll_out": "rollouts.playing",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(name)
    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
