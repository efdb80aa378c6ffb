"""What channel 2 did in a step, as numbers for the log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import torch
from torch import Tensor

from ..models.states import sent
from .distillation import Distilled
from .online_sites import OnlineSite

Found = tuple[Counter[str], Counter[str], int]
"""Of one process: sites by kind, turns left out by reason, number of rollouts."""


def found_sites(sites: Sequence[Sequence[OnlineSite]], dropped: Counter[str]) -> Found:
    return Counter(site.kind for found in sites for site in found), dropped, len(sites)


def site_metrics(processes: Sequence[Found]) -> dict[str, float]:
    kinds, dropped = Counter[str](), Counter[str]()
    for own_kinds, own_dropped, _ in processes:
        kinds += own_kinds
        dropped += own_dropped
    rollouts = sum(count for *_, count in processes)
    return {
        "sdpo/sites": kinds.total(),
        "sdpo/sites_per_rollout": kinds.total() / rollouts,
        **{f"sdpo/sites/{kind}": count for kind, count in sorted(kinds.items())},
        **{f"sdpo/dropped/{reason}": count for reason, count in sorted(dropped.items())},
    }


def distilled_metrics(distilled: Distilled, kinds: Sequence[str]) -> dict[str, Tensor]:
    """Of this process's sites, `kinds` in their order; still on their device."""
    if not kinds:
        return {}
    # Medians and quantiles skip what is not a number; a site that has none has no divergence either.
    divergence_K = distilled.divergence_K.float().where(distilled.finite_K, torch.nan)
    disfavoured_K = distilled.teacher_logprob_K < distilled.student_logprob_K
    device = divergence_K.device
    of_kind = {kind: sent(torch.tensor([kind == other for other in kinds]), device) for kind in sorted(set(kinds))}
    return {
        "sdpo/divergence": divergence_K.nanmean(),
        "sdpo/divergence_p50": divergence_K.nanmedian(),
        "sdpo/divergence_p95": divergence_K.nanquantile(0.95),
        "sdpo/disfavoured": disfavoured_K.float().mean(),
        "sdpo/kept": distilled.kept_K.float().mean(),
        "sdpo/not_finite": (~distilled.finite_K).sum(),
        "sdpo/student_nll": -distilled.student_logprob_K.where(distilled.finite_K, torch.nan).nanmean(),
        "sdpo/teacher_nll": -distilled.teacher_logprob_K.where(distilled.finite_K, torch.nan).nanmean(),
        **({} if distilled.importance_N is None else {"sdpo/importance": distilled.importance_N.float().nanmean()}),
        **{f"sdpo/divergence/{kind}": divergence_K.where(is_K, torch.nan).nanmean() for kind, is_K in of_kind.items()},
    }
