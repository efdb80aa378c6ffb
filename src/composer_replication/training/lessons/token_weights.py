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

from ..models.states import Head, last_hidden, output_head
from ..stored.records import TokenWeights
from .distillation import importance
from .online_sites import OnlineSite, Rolled
from .self_teacher import SelfTeacher, mixed_head, mixed_states

LOGITS_AT_ONCE = 1 << 24
"""64 MiB in float32, a few times: next to nothing beside a backward pass."""
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


class TurnStates(NamedTuple):
    """What predicts each token of a turn. Logits are made of some tokens at a time: those of all may not fit."""

    hidden_NH: Tensor
    head: Head

    @property
    def chunks(self) -> list[slice]:
        """At least one, of nothing where the turn is empty."""
        size = max(1, LOGITS_AT_ONCE // len(self.head.weight_VH))
        return [slice(start, start + size) for start in range(0, max(1, len(self.hidden_NH)), size)]

    @property
    def dtype(self) -> torch.dtype:
        """Norms and entropies of bfloat16 would have two digits."""
        return torch.promote_types(self.head.weight_VH.dtype, torch.float32)

    def logits(self, chunk: slice) -> Tensor:
        weight_VH, bias_V, scale = self.head
        logits_NV = self.hidden_NH[chunk].to(weight_VH.dtype) @ weight_VH.T
        logits_NV = scale * (logits_NV if bias_V is None else logits_NV + bias_V)
        return logits_NV.to(self.dtype)

    def logprobs(self, turn: Sequence[int], temperature: float = 1.0) -> Tensor:
        """Of the tokens that stand there."""
        labels_N1 = torch.tensor(turn, device=self.hidden_NH.device)[:, None]
        found = [
            (self.logits(chunk) / temperature).log_softmax(-1).gather(-1, labels_N1[chunk])[:, 0]
            for chunk in self.chunks
        ]
        return torch.cat(found)

    def entropy(self, temperature: float = 1.0) -> Tensor:
        found: list[Tensor] = []
        for chunk in self.chunks:
            logprobs_NV = (self.logits(chunk) / temperature).log_softmax(-1)
            found.append(-(logprobs_NV.exp() * logprobs_NV).sum(-1))
        return torch.cat(found)


@torch.no_grad()
def turn_states(model: Any, context: Sequence[int], turn: Sequence[int]) -> TurnStates:
    weight_VH, bias_V, scale = output_head(model)
    ids_1T = torch.tensor([[*context, *turn]], device=weight_VH.device)
    # Position p predicts token p + 1.
    hidden_NH = last_hidden(model, ids_1T)[0, len(context) - 1 : -1]
    return TurnStates(hidden_NH, Head(weight_VH.detach(), None if bias_V is None else bias_V.detach(), scale))


def taught_states(
    model: Any, teacher: SelfTeacher, context: Sequence[int], turn: Sequence[int], own: SdpoSettings
) -> TurnStates:
    """What the teacher makes of a turn behind its hint."""
    with teacher.installed(model):
        hinted = turn_states(model, context, turn)
    if own.teacher != "trust_region":
        return hinted
    return mixed(hinted, turn_states(model, context, turn), own.trust_region_rate)


def mixed(start: TurnStates, live: TurnStates, rate: float) -> TurnStates:
    """Whose logits are `(1 - rate) · start + rate · live`."""
    heads = start.head, live.head, rate
    return TurnStates(mixed_states(start.hidden_NH, live.hidden_NH, *heads), mixed_head(*heads))


def policy_row(model: Any, rolled: Rolled, slope: float, temperature: float) -> WeighedRow:
    """`slope` is that of the loss at the log-probability of each sampled token."""
    slopes = [slope * marked for marked in rolled.sampled_mask]
    turn = rolled.completion_ids
    return logprob_row("rollout", model, rolled.prompt_ids, turn, slopes, rolled.sampled_mask, temperature)


def logprob_row(
    part: str,
    model: Any,
    context: list[int],
    turn: list[int],
    slopes: Sequence[float],
    mask: Sequence[int] | None = None,
    temperature: float = 1.0,
) -> WeighedRow:
    """Of a loss whose slope at the log-probability of each token of the turn is known."""
    states = turn_states(model, context, turn)
    labels_N = torch.tensor(turn, device=states.hidden_NH.device)
    slopes_N = torch.tensor(slopes, device=states.hidden_NH.device, dtype=states.dtype)
    weights = [
        logprob_token_weights(states.logits(chunk), labels_N[chunk], slopes_N[chunk], temperature)
        for chunk in states.chunks
    ]
    return weighed_row(part, context + turn, torch.cat(weights), states, mask, temperature)


def weighed_row(
    part: str,
    ids: list[int],
    weights_N: Tensor,
    states: TurnStates,
    mask: Sequence[int] | None = None,
    temperature: float = 1.0,
) -> WeighedRow:
    """The weights of the last tokens, all of which the channel looks at, or those that `mask` marks."""
    ahead, marks = [0] * (len(ids) - len(weights_N)), list(mask or [1] * len(weights_N))
    entropy = [own * marked for own, marked in zip(states.entropy(temperature).tolist(), marks, strict=True)]
    return WeighedRow(part, ids, [*ahead, *weights_N.tolist()], [*ahead, *marks], [*ahead, *entropy])


def site_weights(
    student: TurnStates,
    teacher: TurnStates,
    turn: Sequence[int],
    own: SdpoSettings,
    weight: float,
    importance_N: Tensor | None = None,
) -> Tensor:
    """Of one site, whose mean over the turn's tokens has this weight; 0 where gate G3 drops it."""
    kept = not own.require_disfavour or bool(teacher.logprobs(turn).mean() < student.logprobs(turn).mean())
    shares_N = student.hidden_NH.new_full((len(turn),), weight * kept / len(turn), dtype=student.dtype)
    if importance_N is not None:
        shares_N = shares_N * importance_N
    found = [
        divergence_token_weights(
            student.logits(chunk),
            teacher.logits(chunk),
            shares_N[chunk],
            beta=own.jsd_beta,
            temperature=own.temperature,
            top_k=own.top_k,
            token_clip=own.token_clip,
        )
        for chunk in student.chunks
    ]
    return torch.cat(found)


def online_row(
    model: Any,
    teacher: SelfTeacher,
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
        student = turn_states(model, ids[:start], site.turn_ids)
        hinted = taught_states(model, teacher, site.teacher_context, site.turn_ids, own)
        ratio_N = None
        if own.importance_clip is not None:
            now_N = student.logprobs(site.turn_ids, sampling_temperature)
            ratio_N = importance(now_N, now_N.new_tensor(site.logprobs)).clamp(max=own.importance_clip)
        weights[start:end] = site_weights(student, hinted, site.turn_ids, own, weight, ratio_N).tolist()
        mask[start:end] = [1] * (end - start)
    return WeighedRow("rollout", ids, weights, mask)
