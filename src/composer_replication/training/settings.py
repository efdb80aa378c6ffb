"""Settings of the trainer beside TRL's own and the two weights that the origin names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

SelfTeacherKind = Literal["ema", "frozen", "live"]


@dataclass(frozen=True)
class ComposerSettings:
    jsd_beta: float = 0.5
    """0 is KL(teacher‖student), 1 is KL(student‖teacher), in between the generalised Jensen-Shannon divergence."""
    sdpo_temperature: float = 1.0
    sdpo_top_k: int | None = None
    """Compare the union of both top-k sets and one bucket for the rest; None compares the whole vocabulary."""
    sdpo_token_clip: float | None = None
    """Scale a token whose divergence is above this down to it. JSD is bounded already."""
    teacher: SelfTeacherKind = "ema"
    ema_rate: float = 0.01
    sites_per_rollout: int = 2
    """The earliest ones: later turns stand on a history that is spoiled already."""
    require_disfavour: bool = True
    """Drop a site where the hint does not make what was sampled less likely."""
    kinds_off: frozenset[str] = frozenset()
    """Error kinds whose hints do not help, as the gap probe tells."""
    max_teacher_tokens: int = 8192
    """A site whose hinted context is longer than this is skipped and counted."""
    teacher_rows: int = 256
    """Hinted contexts per forward pass."""

    dpo_beta: float = 0.1
    dpo_nll_weight: float = 0.0
    dpo_dpop_weight: float = 0.0
    dpo_length_normalised: bool | Literal["auto"] = False
    dpo_sft_only: bool = False
    """Train on the chosen actions alone: the control that any gain of preferences has to beat."""

    warmup_share: float = 0.0
    decay_share: float = 0.0
    """Shares of all steps over which the weights of channels 2 and 3 rise from 0 and fall back to it."""
    gradient_ratio_cap: float | None = 0.5
    """Largest norm of a channel's weighted gradient, as a multiple of the policy gradient's. Measured over each whole
    step and applied to the next one; a channel begins after the first step in which it was measured."""
    dynamic_sampling_rounds: int = 0
    """How often groups whose rollouts all got one reward are replaced by groups for other prompts."""
