"""Teacher replies to preference pairs."""

from .build import PairSet, extract_dpo_pairs
from .calibrate import Calibration, calibrate
from .canonical import canonical_action
from .vote import Chamber, Equivalence, VoteVerdict, vote

__all__ = [
    "Calibration", "Chamber", "Equivalence", "PairSet", "VoteVerdict", "calibrate", "canonical_action",
    "extract_dpo_pairs", "vote",
]  # fmt: skip
