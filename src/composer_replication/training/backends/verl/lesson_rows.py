"""Columns beside the rows of a step, in plain torch: what channels 2 and 3 ask of each token.

    L2 = Σ over sites of the mean over the turn's tokens of ½ (log π − log π(hinted))² / number of sites
    L3 = the preference loss over pairs, as the slope of each side's log-probability at the policy as it is

Gate G3 drops a site where the hint does not make the turn less likely; one with a log-probability that is not finite is
dropped too. A dropped site still counts in the denominator.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from composer_replication.losses.sampled import preference_slopes
from composer_replication.objective import SdpoSettings, TrdpoSettings

from ...stored.examples import PairTokens


class ScoredRow(NamedTuple):
    context: list[int]
    turn: list[int]


class Columns(NamedTuple):
    """One value per response token of a row."""

    teacher: Tensor
    weight: Tensor
    slope: Tensor

    @classmethod
    def empty(cls, tokens: int, dtype: torch.dtype = torch.float32) -> Columns:
        return cls(*(torch.zeros(tokens, dtype=dtype) for _ in range(3)))


def site_columns(
    columns: Sequence[Columns],
    at: Sequence[tuple[int, int, int]],
    policy: Sequence[Tensor],
    teacher: Sequence[Tensor],
    weight: float,
    settings: SdpoSettings,
) -> dict[str, float]:
    """Fills in the turns that lie at (row, start, end). Tells the divergence of all finite ones, and the loss of those
    that the gate leaves, without the channel's weight."""
    if not at:
        return {}
    apart: list[float] = []
    kept: list[float] = []
    for (row, start, end), own, hinted in zip(at, policy, teacher, strict=True):
        ratios = own - hinted
        if not ratios.isfinite().all():
            continue  # a token that one of the two rules out would be pulled at without end
        apart.append(float(ratios.square().mean() / 2))
        if ratios.sum() > 0 or not settings.require_disfavour:
            columns[row].teacher[start:end] = hinted
            columns[row].weight[start:end] += weight / ((end - start) * len(at))
            kept.append(apart[-1])
    return {
        "composer/sdpo_loss": sum(kept) / len(at),
        "composer/sdpo_divergence": sum(apart) / max(1, len(apart)),
        "composer/sdpo_sites": float(len(at)),
        "composer/sdpo_dropped": float(len(at) - len(kept)),
        "composer/sdpo_weight": weight,
    }


def told_of_rollouts(left_out: Iterable[Iterable[tuple[str, int]]]) -> dict[str, float]:
    """Before any site is scored, so that a step without sites tells that too. `left_out` has each rollout's turns that
    became no site, by reason."""
    counts: Counter[str] = Counter()
    for of_rollout in left_out:
        counts.update(dict(of_rollout))
    told = {f"composer/sdpo_left_out/{reason}": float(turns) for reason, turns in sorted(counts.items())}
    return {"composer/sdpo_sites": 0.0, "composer/sdpo_dropped": 0.0, **told}


def pair_columns(
    scores: Sequence[Tensor], pairs: Sequence[PairTokens], weight: float, settings: TrdpoSettings
) -> tuple[dict[str, float], list[Columns]]:
    """`scores` of chosen and rejected, pair after pair; so are the columns."""
    if not pairs:
        return {}, []
    chosen_B, rejected_B = (torch.stack([score.sum() for score in scores[side::2]]) for side in (0, 1))
    slopes = preference_slopes(
        chosen_B,
        rejected_B,
        chosen_B.new_tensor([pair.reference_chosen for pair in pairs]),
        chosen_B.new_tensor([pair.reference_rejected for pair in pairs]),
        chosen_tokens_B=torch.tensor([len(pair.chosen) for pair in pairs]),
        rejected_tokens_B=torch.tensor([len(pair.rejected) for pair in pairs]),
        beta=settings.beta,
        label_smoothing_B=chosen_B.new_tensor([pair.label_smoothing for pair in pairs]),
        nll_weight=settings.nll_weight,
        dpop_weight=settings.dpop_weight,
        length_normalised=settings.length_normalised,
        sft_only=settings.sft_only,
    )
    columns = [Columns.empty(len(score), score.dtype) for score in scores]
    for side, slope_B in enumerate((slopes.chosen_B, slopes.rejected_B)):
        for pair, slope in enumerate(slope_B.tolist()):
            columns[2 * pair + side].slope.fill_(weight * slope)
    told = {
        "composer/replay_loss": slopes.found.loss.item(),
        "composer/replay_margin": slopes.found.margin_B.mean().item(),
        "composer/replay_accuracy": slopes.found.accuracy.item(),
        "composer/replay_pairs": float(len(pairs)),
        "composer/replay_weight": weight,
    }
    return told, columns
