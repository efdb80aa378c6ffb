"""Columns beside the rows of a step, in plain torch: what channels 2 and 3 ask of each token.

L2 = Σ over sites of the mean over the turn's tokens of ½ (log π − log π(hinted))² / number of sites
L3 = the preference loss over pairs, as the slope of each side's log-probability at the policy as it is
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from composer_replication.objective import SdpoSettings, TrdpoSettings

from ...step.sampled import gated, pair_slopes
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
    """Fills in the turns that lie at (row, start, end) and that the gates leave."""
    if not at:
        return {}
    found = gated(policy, teacher, weight, settings)
    for (row, start, end), hinted, token_weight in zip(at, teacher, found.token_weights, strict=True):
        if token_weight:
            columns[row].teacher[start:end] = hinted
            columns[row].weight[start:end] += token_weight
    return {f"composer/sdpo_{name}": value for name, value in found.metrics.items()} | {"composer/sdpo_weight": weight}


def told_of_rollouts(left_out: Iterable[Iterable[tuple[str, int]]]) -> dict[str, float]:
    """Before any site is scored, so that a step without sites tells that too. `left_out` has each rollout's turns that
    became no site, by reason."""
    counts: Counter[str] = Counter()
    for of_rollout in left_out:
        counts.update(dict(of_rollout))
    told = {f"composer/sdpo_left_out/{reason}": float(turns) for reason, turns in sorted(counts.items())}
    return {"composer/sdpo_sites": 0.0, **told}


def pair_columns(
    scores: Sequence[Tensor], pairs: Sequence[PairTokens], weight: float, settings: TrdpoSettings
) -> tuple[dict[str, float], list[Columns]]:
    """`scores` of chosen and rejected, pair after pair; so are the columns."""
    if not pairs:
        return {}, []
    slopes = pair_slopes(scores[::2], scores[1::2], pairs, settings)
    columns = [Columns.empty(len(score), score.dtype) for score in scores]
    for side, slope_B in enumerate((slopes.chosen_B, slopes.rejected_B)):
        for pair, slope in enumerate(slope_B.tolist()):
            columns[2 * pair + side].slope.fill_(weight * slope)
    told = {f"composer/replay_{name}": value for name, value in slopes.metrics.items()}
    return {**told, "composer/replay_weight": weight}, columns
