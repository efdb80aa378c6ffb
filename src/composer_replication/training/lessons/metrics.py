"""What channel 2 did in a step, as numbers for the log."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Mapping, Sequence

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
        **{f"{DROPPED}{reason}": count for reason, count in sorted(dropped.items())},
    }


DROPPED = "sdpo/dropped/"
WHY_DROPPED = {
    "turns_do_not_match": "the trace has another number of turns than were sampled",
    "kind_off": "kinds_off names their kind of error",
    "environment_broke": "the environment itself broke there",
    "empty_hint": "the hint is empty",
    "too_long": "hinted context and turn are longer than max_teacher_tokens or than the model has positions for",
    "not_accepted": "the environment refused what was sampled behind the hint",
}
"""The reasons for which a rollout can lose all of its sites."""


def warn_if_all_dropped(metrics: Mapping[str, float], step: int) -> bool:
    """Whether channel 2 lost every hinted turn of a step."""
    dropped = {name.removeprefix(DROPPED): count for name, count in metrics.items() if name.startswith(DROPPED)}
    if metrics["sdpo/sites"] or not dropped:
        return False
    most = max(WHY_DROPPED, key=lambda reason: dropped.get(reason, 0))
    warnings.warn(
        f"step {step}: all {sum(dropped.values())} hinted turns were left out, so channel 2 taught nothing; most often "
        f"({dropped[most]}) {WHY_DROPPED[most]} ({DROPPED}{most}). Said once; the metrics count every step",
        stacklevel=2,
    )
    return True


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
