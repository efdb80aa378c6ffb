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
from math import isfinite
from typing import NamedTuple

import torch

from composer_replication.losses.sampled import slopes_of
from composer_replication.objective import SdpoSettings

from ..channels import ReplayPreference
from ..lessons.online_sites import OnlineSite, Rolled
from ..stored.collator import Batch
from ..stored.examples import PairTokens, TraceExample

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
    channel: ReplayPreference
    weight: float
    pairs: Sequence[PairTokens]
    batch: Batch
    """The same pairs, collated."""


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


def _distil(taught: Sequence[TaughtTurn], teachers: Sequence[list[float]], distilling: Distilling) -> dict[str, float]:
    """A site that is dropped still counts in the denominator, as in the whole loss."""
    settings, number = distilling.settings, len(taught)
    loss = kept = disfavoured = impossible = 0.0
    for turn, teacher in zip(taught, teachers, strict=True):
        size = len(turn.turn_ids)
        own, hinted = turn.row.logprobs[turn.start : turn.start + size], teacher[-size:]
        ratios = [student - better for student, better in zip(own, hinted, strict=True)]
        if not all(map(isfinite, ratios)):
            impossible += 1  # a token that one of the two rules out would be pulled at without end
            continue
        is_disfavoured = sum(ratios) > 0
        disfavoured += is_disfavoured
        if settings.require_disfavour and not is_disfavoured:
            continue
        kept += 1
        loss += sum(ratio * ratio for ratio in ratios) / 2 / size / number
        for place, ratio in enumerate(ratios, turn.start):
            turn.row.pulls[place] -= distilling.weight * ratio / size / number
    shares = {
        "sites": float(number),
        "kept": kept / number,
        "disfavoured": disfavoured / number,
        "impossible": impossible / number,
    }
    return {"channel/sdpo": loss, **{f"sdpo/{name}": value for name, value in shares.items()}}


def _prefer(pairs: Sequence[tuple[PulledRow, PulledRow]], preferring: Preferring) -> dict[str, float]:
    """The loss sees sums of log-probabilities alone, so its slope is the same at all tokens of an action."""
    channel = preferring.channel
    starts = [len(pair.prompt) for pair in preferring.pairs]
    chosen_B, rejected_B = (
        torch.tensor(
            [sum(rows[side].logprobs[start:]) for rows, start in zip(pairs, starts, strict=True)],
            dtype=torch.float64,
            requires_grad=True,
        )
        for side in (0, 1)
    )
    loss = channel.of_actions(chosen_B, rejected_B, preferring.batch)
    slopes = slopes_of(preferring.weight * loss, chosen_B, rejected_B)
    for side, slope_B in enumerate(slopes):
        for rows, start, slope in zip(pairs, starts, slope_B.tolist(), strict=True):
            rows[side].pulls[start:] = [-slope] * (len(rows[side].ids) - start)
    metrics = {f"{channel.name}/{name}": value for name, value in channel.metrics.items()}
    return {f"channel/{channel.name}": loss.item(), **metrics}
