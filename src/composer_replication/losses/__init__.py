"""Channel mathematics as pure functions on tensors. Imports torch and nothing of this package."""

from .compose import ChannelSchedule, GradientRatioCap, flat_cosine, gradient_norm
from .divergence import generalized_jsd_loss, token_divergence
from .hidden_divergence import HiddenDivergence, hidden_divergence
from .hidden_logprobs import hidden_logprobs
from .preference import PreferenceLoss, preference_loss, sequence_logprobs

__all__ = [
    "ChannelSchedule",
    "GradientRatioCap",
    "HiddenDivergence",
    "PreferenceLoss",
    "flat_cosine",
    "generalized_jsd_loss",
    "gradient_norm",
    "hidden_divergence",
    "hidden_logprobs",
    "preference_loss",
    "sequence_logprobs",
    "token_divergence",
]
