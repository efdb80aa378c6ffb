"""Channel mathematics as pure functions on tensors. Imports torch and nothing of this package."""

from .divergence import generalized_jsd_loss, token_divergence
from .preference import dpo_loss, sequence_logprobs

__all__ = ["dpo_loss", "generalized_jsd_loss", "sequence_logprobs", "token_divergence"]
