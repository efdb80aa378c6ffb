"""Losses and data composed into training. Importing this package does not import torch; its classes do."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .backends.trl.rollouts import EnvironmentRollouts, prompts_of
    from .backends.trl.trainer import ComposerReplicationTrainer
    from .channels import Channel, SelfDistillation
    from .lessons.online_sites import HintedTurn, OnlineSite, Rolled, TraceHinter
    from .models.loading import Policy, load_policy
    from .models.tokens import ChatTokens
    from .rollouts.environment_steps import StepFailure
    from .rollouts.playing import roll_out
    from .rollouts.sampling import FreeSampler, SampledTurn, TurnSampler, sample_turns
    from .rollouts.worker import Rollout, TurnRecord
    from .stored.batches import StoredBatches
    from .stored.collator import ComposerDataCollator
    from .stored.examples import PairTokens, RereadTurn, SiteTokens, TraceExample

__all__ = [
    "Channel",
    "ChatTokens",
    "ComposerDataCollator",
    "ComposerReplicationTrainer",
    "EnvironmentRollouts",
    "FreeSampler",
    "HintedTurn",
    "OnlineSite",
    "PairTokens",
    "Policy",
    "RereadTurn",
    "Rolled",
    "Rollout",
    "SampledTurn",
    "SelfDistillation",
    "SiteTokens",
    "StepFailure",
    "StoredBatches",
    "TraceExample",
    "TraceHinter",
    "TurnRecord",
    "TurnSampler",
    "load_policy",
    "prompts_of",
    "roll_out",
    "sample_turns",
]
_PLACES = {
    "backends.trl.rollouts": ("EnvironmentRollouts", "prompts_of"),
    "backends.trl.trainer": ("ComposerReplicationTrainer",),
    "channels": ("Channel", "SelfDistillation"),
    "lessons.online_sites": ("HintedTurn", "OnlineSite", "Rolled", "TraceHinter"),
    "models.loading": ("Policy", "load_policy"),
    "models.tokens": ("ChatTokens",),
    "rollouts.environment_steps": ("StepFailure",),
    "rollouts.playing": ("roll_out",),
    "rollouts.sampling": ("FreeSampler", "SampledTurn", "TurnSampler", "sample_turns"),
    "rollouts.worker": ("Rollout", "TurnRecord"),
    "stored.batches": ("StoredBatches",),
    "stored.collator": ("ComposerDataCollator",),
    "stored.examples": ("PairTokens", "RereadTurn", "SiteTokens", "TraceExample"),
}


def __getattr__(name: str) -> Any:
    for module, names in _PLACES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(name)


def __dir__() -> list[str]:
    return __all__
