"""How much a channel may weigh: a schedule over the run, and a cap that keeps the policy gradient in charge."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import torch
from torch import Tensor

# A gradient below this is rounding, whatever the history says.
ROUNDING_NORM = 1e-8
MOST_RAISED = 100.0


@dataclass(frozen=True)
class ChannelSchedule:
    """`weight`, reached linearly over `warmup_share` of the steps and given up linearly over the last `decay_share`."""

    weight: float
    warmup_share: float = 0.1
    decay_share: float = 0.3

    def __post_init__(self) -> None:
        if not (self.warmup_share >= 0 and self.decay_share >= 0 and self.warmup_share + self.decay_share <= 1):
            raise ValueError("warmup_share and decay_share must not be negative and must fit into one run")

    def at(self, step: int, steps: int) -> float:
        """Weight of step `step` (the first is 0) of `steps`. It is above 0 in every step and 0 after the last."""
        if step < 0 or steps <= 0:
            raise ValueError(f"there is no step {step} of {steps}")
        warmup_steps, decay_steps = self.warmup_share * steps, self.decay_share * steps
        rising = min(1.0, (step + 1) / warmup_steps) if warmup_steps else 1.0
        falling = min(1.0, max(0, steps - step) / decay_steps) if decay_steps else 1.0
        return self.weight * min(rising, falling)


class GradientRatioCap:
    """Factor that holds one channel's weighted gradient to `limit` times the policy's.

    In a step whose groups are all flat the policy gradient says nothing: below `flat_share` of its running median over
    the last `history` other steps, that median stands in. Without any history the channel is left as it is. With
    `raises` a smaller gradient is also brought to the limit, at most `MOST_RAISED` times.
    """

    def __init__(self, limit: float = 0.5, history: int = 64, flat_share: float = 0.01, raises: bool = False) -> None:
        if limit <= 0 or history <= 0 or not 0 <= flat_share < 1:
            raise ValueError("limit and history must be positive, and flat_share in [0, 1)")
        self.limit, self.flat_share, self._most = limit, flat_share, MOST_RAISED if raises else 1.0
        self._policy_norms: deque[float] = deque(maxlen=history)

    def factor(self, policy_norm: float, channel_norm: float) -> float:
        """`channel_norm` is that of the gradient times its weight. Each call also adds `policy_norm` to the history."""
        usual = median(self._policy_norms) if self._policy_norms else None
        if not math.isfinite(policy_norm) or policy_norm <= max(ROUNDING_NORM, self.flat_share * (usual or 0)):
            reference = usual
        else:
            reference = policy_norm
            self._policy_norms.append(policy_norm)
        if not math.isfinite(channel_norm):
            return 0.0
        if reference is None or channel_norm == 0:
            return 1.0
        return min(self._most, self.limit * reference / channel_norm)

    def state(self) -> dict[str, Any]:
        """JSON-safe; the settings are not part of it."""
        return {"policy_norms": list(self._policy_norms)}

    def load(self, state: dict[str, Any]) -> None:
        """Go on from what `state` gave."""
        self._policy_norms = deque(state["policy_norms"], self._policy_norms.maxlen)


def gradient_norm(grads: Iterable[Tensor | None]) -> float:
    """Euclidean norm of `grads` as one vector; None counts as zeros."""
    present = [grad for grad in grads if grad is not None]
    norms = [torch.linalg.vector_norm(grad, dtype=torch.promote_types(grad.dtype, torch.float32)) for grad in present]
    return torch.linalg.vector_norm(torch.stack(norms)).item() if norms else 0.0


def flat_cosine(first: Sequence[Tensor | None], second: Sequence[Tensor | None]) -> float:
    """Cosine between two gradients of the same parameters; a missing tensor is all zeros, and 0 has no direction."""
    dots = [
        (a.float() * b.float()).sum() for a, b in zip(first, second, strict=True) if a is not None and b is not None
    ]
    norms = gradient_norm(first) * gradient_norm(second)
    return torch.stack(dots).sum().item() / norms if dots and norms else 0.0
