"""Channel mathematics as pure functions on tensors. Imports torch and nothing of this package."""

from .compose import ChannelSchedule, GradientRatioCap, flat_cosine, gradient_norm
from .divergence import generalized_jsd_loss, token_divergence
from .hidden_divergence import HiddenDivergence, hidden_divergence
from .hidden_logprobs import hidden_logprobs
from .preference import PreferenceLoss, preference_loss, sequence_logprobs
from .token_weights import divergence_token_weights, logprob_token_weights

__all__ = [
    "ChannelSchedule",
    "GradientRatioCap",
    "HiddenDivergence",
    "PreferenceLoss",
    "divergence_token_weights",
    "flat_cosine",
    "generalized_jsd_loss",
    "gradient_norm",
    "hidden_divergence",
    "hidden_logprobs",
    "logprob_token_weights",
    "preference_loss",
    "sequence_logprobs",
    "token_divergence",
]
