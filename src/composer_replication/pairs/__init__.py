"""Teacher replies to preference pairs."""

from .build import PairSet, extract_dpo_pairs
from .vote import Verdict, vote

__all__ = ["PairSet", "Verdict", "extract_dpo_pairs", "vote"]
