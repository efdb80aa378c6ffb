"""A step from log-probabilities of sampled tokens alone, for engines that give no logits.

    pull of a token = -dL / d log p(token)

With the pulls as advantages at ratio 1 a policy-gradient engine makes the gradient of all channels together:

    channel 1   A / number of sampled tokens
    channel 2   alpha · (log p_teacher - log p_student) / tokens of the turn / number of sites
    channel 3   beta · the slope of the preference at the policy as it is, the same at all tokens of an action

Deviates from the whole loss in channel 2: half the squared log-ratio of the sampled token takes the place of the
divergence between distributions. On average over samples its gradient is that of reverse KL.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from composer_replication.losses.sampled import Slopes, preference_slopes
from composer_replication.objective import SdpoSettings, TrdpoSettings

from ..lessons.online_sites import OnlineSite, Rolled
from ..stored.examples import PairTokens, TraceExample
from .online import SDPO

REPLAY = "replay"
Read = Callable[[Sequence[list[int]]], list[list[float]]]
"""Log-probabilities of the ids of each row but its first, which nothing predicts."""


@dataclass
class PulledRow:
    """`pulls` and `logprobs` have one entry for each id; the first, which nothing predicts, has 0."""

    ids: list[int]
    pulls: list[float]
    logprobs: list[float] = field(default_factory=list[float])

    @property
    def is_pulled(self) -> bool:
        return any(self.pulls)


class TaughtTurn(NamedTuple):
    """The turn that begins at `start` of a row, and the same turn behind the hinted context."""

    row: PulledRow
    start: int
    turn_ids: list[int]
    teacher_context: list[int]


class Distilling(NamedTuple):
    settings: SdpoSettings
    weight: float
    teach: Read | None
    """Of a teacher that is not the policy as it is."""


class Preferring(NamedTuple):
    settings: TrdpoSettings
    weight: float
    pairs: Sequence[PairTokens]


class GatedTurns(NamedTuple):
    token_weights: list[float]
    """Of each token of a turn; 0 for a turn that is dropped."""
    metrics: dict[str, float]


class SampledStep(NamedTuple):
    rows: list[PulledRow]
    """Those that something pulls at."""
    metrics: dict[str, float]


def policy_rows(rollouts: Sequence[Rolled], advantages: Sequence[float], weight: float) -> list[PulledRow]:
    """DAPO at ratio 1: the mean over all sampled tokens of the step."""
    tokens = max(1, sum(sum(rolled.sampled_mask) for rolled in rollouts))
    return [
        PulledRow(
            rolled.prompt_ids + rolled.completion_ids,
            [0.0] * len(rolled.prompt_ids) + [weight * advantage / tokens * own for own in rolled.sampled_mask],
        )
        for rolled, advantage in zip(rollouts, advantages, strict=True)
    ]


def online_turns(
    rows: Sequence[PulledRow], rollouts: Sequence[Rolled], sites: Sequence[Sequence[OnlineSite]]
) -> list[TaughtTurn]:
    return [
        TaughtTurn(row, len(rolled.prompt_ids) + site.start, site.turn_ids, site.teacher_context)
        for row, rolled, found in zip(rows, rollouts, sites, strict=True)
        for site in found
    ]


def stored_turns(examples: Sequence[TraceExample]) -> list[TaughtTurn]:
    """On rows of their own, as long as the last site needs."""
    taught: list[TaughtTurn] = []
    for example in examples:
        ids = example.ids[: max((site.end for site in example.sites), default=0)]
        row = PulledRow(ids, [0.0] * len(ids))
        for site in example.sites:
            taught.append(TaughtTurn(row, site.start, ids[site.start : site.end], site.teacher_context))
    return taught


def sampled_step(
    read: Read,
    rows: Sequence[PulledRow],
    taught: Sequence[TaughtTurn],
    distilling: Distilling,
    preferring: Preferring | None,
) -> SampledStep:
    """Adds the pulls of both further channels to those of `rows`, and everywhere the policy's log-probabilities."""
    metrics: dict[str, float] = {}
    pairs = _action_rows(preferring.pairs) if preferring else []
    own = list({id(row): row for row in (*rows, *(turn.row for turn in taught))}.values())
    teachers = [turn.teacher_context + turn.turn_ids for turn in taught]
    known = [row for row in own if row.is_pulled or any(turn.row is row for turn in taught)]
    students = [*known, *(row for pair in pairs for row in pair)]
    live = teachers if distilling.teach is None else []
    found = read([*(row.ids for row in students), *live]) if students else []
    for row, logprobs in zip(students, found, strict=False):
        row.logprobs = [0.0, *logprobs]
    teacher_logprobs = found[len(students) :] if distilling.teach is None else distilling.teach(teachers)
    if taught:
        metrics |= _distil(taught, teacher_logprobs, distilling)
    if preferring:
        metrics |= _prefer(pairs, preferring)
    return SampledStep([row for row in students if row.is_pulled], metrics)


def _action_rows(pairs: Sequence[PairTokens]) -> list[tuple[PulledRow, PulledRow]]:
    def row(prompt: list[int], action: list[int]) -> PulledRow:
        return PulledRow(prompt + action, [0.0] * (len(prompt) + len(action)))

    return [(row(pair.prompt, pair.chosen), row(pair.prompt, pair.rejected)) for pair in pairs]


def gated(own: Sequence[Tensor], hinted: Sequence[Tensor], weight: float, settings: SdpoSettings) -> GatedTurns:
    """Gate G3 drops a turn that the hint does not make less likely. One with a log-probability that is not finite is
    dropped too: it would be pulled at without end. A dropped turn still counts in the denominator, as in the whole
    loss; `divergence` is that of all finite ones, `loss` of those that are left, without the channel's weight."""
    number = len(own)
    token_weights = [0.0] * number
    apart: list[float] = []
    loss = kept = disfavoured = 0.0
    for place, (student, teacher) in enumerate(zip(own, hinted, strict=True)):
        ratios = student - teacher
        if not ratios.isfinite().all():
            continue
        apart.append(float(ratios.square().mean() / 2))
        is_disfavoured = bool(ratios.sum() > 0)
        disfavoured += is_disfavoured
        if is_disfavoured or not settings.require_disfavour:
            kept += 1
            loss += apart[-1] / number
            token_weights[place] = weight / (len(ratios) * number)
    metrics = {
        "loss": loss,
        "divergence": sum(apart) / max(1, len(apart)),
        "sites": float(number),
        "kept": kept / number,
        "disfavoured": disfavoured / number,
        "impossible": 1 - len(apart) / number,
    }
    return GatedTurns(token_weights, metrics)


def pair_slopes(
    chosen: Sequence[Tensor], rejected: Sequence[Tensor], pairs: Sequence[PairTokens], settings: TrdpoSettings
) -> Slopes:
    """From the log-probabilities of both actions' tokens. The loss sees their sums alone, so its slope is the same at
    all tokens of an action."""
    chosen_B, rejected_B = (torch.stack([one.sum() for one in side]) for side in (chosen, rejected))
    return preference_slopes(
        chosen_B,
        rejected_B,
        chosen_B.new_tensor([pair.reference_chosen for pair in pairs]),
        chosen_B.new_tensor([pair.reference_rejected for pair in pairs]),
        chosen_tokens_B=torch.tensor([len(pair.chosen) for pair in pairs]),
        rejected_tokens_B=torch.tensor([len(pair.rejected) for pair in pairs]),
        beta=settings.beta,
        label_smoothing_B=chosen_B.new_tensor([pair.label_smoothing for pair in pairs]),
        nll_weight=settings.likelihood_weight,
        dpop_weight=settings.dpop_weight,
        length_normalised=settings.length_normalised,
        sft_only=settings.sft_only,
    )


def _distil(taught: Sequence[TaughtTurn], teachers: Sequence[list[float]], distilling: Distilling) -> dict[str, float]:
    own = [_tensor(turn.row.logprobs[turn.start : turn.start + len(turn.turn_ids)]) for turn in taught]
    hinted = [_tensor(teacher[-len(turn.turn_ids) :]) for turn, teacher in zip(taught, teachers, strict=True)]
    found = gated(own, hinted, distilling.weight, distilling.settings)
    for turn, student, teacher, weight in zip(taught, own, hinted, found.token_weights, strict=True):
        if weight:
            for place, ratio in enumerate((student - teacher).tolist(), turn.start):
                turn.row.pulls[place] -= weight * ratio
    return _told(SDPO, found.metrics)


def _prefer(rows: Sequence[tuple[PulledRow, PulledRow]], preferring: Preferring) -> dict[str, float]:
    starts = [len(pair.prompt) for pair in preferring.pairs]
    chosen, rejected = (
        [_tensor(pair[side].logprobs[start:]) for pair, start in zip(rows, starts, strict=True)] for side in (0, 1)
    )
    found = pair_slopes(chosen, rejected, preferring.pairs, preferring.settings)
    for side, slope_B in enumerate((found.chosen_B, found.rejected_B)):
        for pair, start, slope in zip(rows, starts, slope_B.tolist(), strict=True):
            pair[side].pulls[start:] = [-preferring.weight * slope] * (len(pair[side].ids) - start)
    return _told(REPLAY, found.metrics)


def _tensor(values: Sequence[float]) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def _told(channel: str, metrics: dict[str, float]) -> dict[str, float]:
    others = {f"{channel}/{name}": value for name, value in metrics.items() if name != "loss"}
    return {f"channel/{channel}": metrics["loss"], **others}
