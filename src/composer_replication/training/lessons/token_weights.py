"""How much each channel pulls at each token of a few rows, for people to look at.

Costs a forward pass per row without a gradient, in the steps whose rollouts are kept. Row by row, so without padding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from composer_replication.losses import divergence_token_weights, logprob_token_weights
from composer_replication.objective import SdpoSettings
from composer_replication.runs import write_records

from ..models.states import last_hidden, output_head
from ..stored.records import TokenWeights
from .distillation import importance
from .online_sites import OnlineSite, Rolled

PIECES = 1 << 16


class WeighedRow(NamedTuple):
    """`weights` has one entry per id, 0 where the channel does not look; so have `mask` and `entropy`, if they are."""

    part: str
    ids: list[int]
    weights: list[float]
    mask: Sequence[int] = ()
    entropy: Sequence[float] = ()


class TokenWeightsFolder:
    """Collects the rows of a step and writes them as `step_<number>.jsonl.zst`; `piece` is the text of an id."""

    def __init__(self, folder: Path, piece: Callable[[int], str] | None = None) -> None:
        self._folder, self._piece = folder, lru_cache(PIECES)(piece) if piece else None
        self._records: list[TokenWeights] = []

    def add(self, step: int, channel: str, row: WeighedRow, trace_id: str | None = None) -> None:
        pieces = tuple(map(self._piece, row.ids)) if self._piece else ()
        record = TokenWeights(step=step, channel=channel, trace_id=trace_id, pieces=pieces, **row._asdict())
        self._records.append(record)

    def write(self) -> None:
        if self._records:
            write_records(self._folder / f"step_{self._records[0].step:07d}.jsonl.zst", self._records)
        self._records = []


@torch.no_grad()
def turn_logits(model: Any, context: Sequence[int], turn: Sequence[int]) -> Tensor:
    """Those that predict each token of the turn."""
    head = output_head(model)
    ids_1T = torch.tensor([[*context, *turn]], device=head.weight_VH.device)
    # Position p predicts token p + 1.
    hidden_NH = last_hidden(model, ids_1T)[0, len(context) - 1 : -1]
    logits_NV = hidden_NH.to(head.weight_VH.dtype) @ head.weight_VH.T
    return head.scale * (logits_NV if head.bias_V is None else logits_NV + head.bias_V)


def policy_row(model: Any, rolled: Rolled, slope: float, temperature: float) -> WeighedRow:
    """`slope` is that of the loss at the log-probability of each sampled token."""
    logits_NV = turn_logits(model, rolled.prompt_ids, rolled.completion_ids)
    labels_N = torch.tensor(rolled.completion_ids, device=logits_NV.device)
    slopes_N = slope * torch.tensor(rolled.sampled_mask, device=logits_NV.device, dtype=logits_NV.dtype)
    weights_N = logprob_token_weights(logits_NV, labels_N, slopes_N, temperature)
    ids = rolled.prompt_ids + rolled.completion_ids
    return weighed_row("rollout", ids, weights_N, logits_NV, rolled.sampled_mask, temperature)


def weighed_row(
    part: str,
    ids: list[int],
    weights_N: Tensor,
    logits_NV: Tensor,
    sampled: Sequence[int] | None = None,
    temperature: float = 1.0,
) -> WeighedRow:
    """The weights of the last tokens, all of which the channel looks at, or those that `sampled` marks."""
    ahead, mask = [0] * (len(ids) - len(weights_N)), list(sampled or [1] * len(weights_N))
    logprobs_NV = (logits_NV.float() / temperature).log_softmax(-1)
    entropy_N = -(logprobs_NV.exp() * logprobs_NV).sum(-1) * torch.tensor(mask, device=logits_NV.device)
    return WeighedRow(part, ids, [*ahead, *weights_N.tolist()], [*ahead, *mask], [*ahead, *entropy_N.tolist()])


def site_weights(
    student_NV: Tensor,
    teacher_NV: Tensor,
    turn: Sequence[int],
    own: SdpoSettings,
    weight: float,
    importance_N: Tensor | float = 1.0,
) -> Tensor:
    """Of one site, whose mean over the turn's tokens has this weight; 0 where gate G3 drops it."""
    labels_N1 = torch.tensor(turn, device=student_NV.device)[:, None]
    student, teacher = (logits.log_softmax(-1).gather(-1, labels_N1).mean() for logits in (student_NV, teacher_NV))
    kept = not own.require_disfavour or bool(teacher < student)
    return divergence_token_weights(
        student_NV,
        teacher_NV,
        student_NV.new_full((len(turn),), weight * kept / len(turn)) * importance_N,
        beta=own.jsd_beta,
        temperature=own.temperature,
        top_k=own.top_k,
        token_clip=own.token_clip,
    )


def online_row(
    model: Any,
    teacher: Any,
    rolled: Rolled,
    sites: Sequence[OnlineSite],
    own: SdpoSettings,
    weight: float,
    sampling_temperature: float = 1.0,
) -> WeighedRow:
    """All sites of a rollout; `weight` is that of one site."""
    ids, offset = rolled.prompt_ids + rolled.completion_ids, len(rolled.prompt_ids)
    weights, mask = [0.0] * len(ids), [0] * len(ids)
    for site in sites:
        start, end = offset + site.start, offset + site.end
        student_NV = turn_logits(model, ids[:start], site.turn_ids)
        with teacher.installed(model):
            teacher_NV = turn_logits(model, site.teacher_context, site.turn_ids)
        if own.teacher == "trust_region":
            live_NV = turn_logits(model, site.teacher_context, site.turn_ids)
            teacher_NV = torch.lerp(teacher_NV, live_NV, own.trust_region_rate)
        ratio_N = 1.0 if own.importance_clip is None else _clipped_ratio(student_NV, site, own, sampling_temperature)
        weights[start:end] = site_weights(student_NV, teacher_NV, site.turn_ids, own, weight, ratio_N).tolist()
        mask[start:end] = [1] * (end - start)
    return WeighedRow("rollout", ids, weights, mask)


def _clipped_ratio(student_NV: Tensor, site: OnlineSite, own: SdpoSettings, temperature: float) -> Tensor:
    labels_N1 = torch.tensor(site.turn_ids, device=student_NV.device)[:, None]
    now_N = (student_NV / temperature).log_softmax(-1).gather(-1, labels_N1)[:, 0]
    return importance(now_N, now_N.new_tensor(site.logprobs)).clamp(max=own.importance_clip)
