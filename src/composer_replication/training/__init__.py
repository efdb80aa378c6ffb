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
    "Channel": "channels",
    "ChatTokens": "models.tokens",
    "ComposerDataCollator": "stored.collator",
    "ComposerReplicationTrainer": "backends.trl.trainer",
    "EnvironmentRollouts": "backends.trl.rollouts",
    "FreeSampler": "rollouts.sampling",
    "HintedTurn": "lessons.online_sites",
    "OnlineSite": "lessons.online_sites",
    "PairTokens": "stored.examples",
    "Policy": "models.loading",
    "RereadTurn": "stored.examples",
    "Rolled": "lessons.online_sites",
    "Rollout": "rollouts.worker",
    "SampledTurn": "rollouts.sampling",
    "SelfDistillation": "channels",
    "SiteTokens": "stored.examples",
    "StepFailure": "rollouts.environment_steps",
    "StoredBatches": "stored.batches",
    "TraceExample": "stored.examples",
    "TraceHinter": "lessons.online_sites",
    "TurnRecord": "rollouts.worker",
    "TurnSampler": "rollouts.sampling",
    "load_policy": "models.loading",
    "prompts_of": "backends.trl.rollouts",
    "roll_out": "rollouts.playing",
    "sample_turns": "rollouts.sampling",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(name)
    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
