"""What hints change before any training: the divergence between the policy and itself with the hint, at its own errors.

plain   the same context, computed by the teacher's route: must be 0 up to rounding
hinted  behind the hint: what channel 2 would learn from
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from composer_replication.config import Config
from composer_replication.environments.protocol import Environment, EnvironmentTask
from composer_replication.objective import SdpoSettings

from ..lessons.distillation import Distilled, SiteStates, distil
from ..lessons.hinters import hinter_of
from ..lessons.online_sites import OnlineSite, Rolled, find_online_sites
from ..models.loading import Policy
from ..models.states import last_hidden, output_head, padded
from ..rollouts.playing import sample_rolled

ROWS_AT_ONCE = 8


class GapProbe(NamedTuple):
    rollouts: int
    sites: int
    dropped: dict[str, int]
    plain_divergence: float
    """Largest over the sites."""
    hinted_divergence: float
    """Mean over the sites."""
    disfavoured: float
    """Share of the sites where the hint makes the sampled turn less likely, as gate G3 asks."""
    student_nll: float
    hinted_nll: float


def probe_gap(policy: Policy, config: Config, environment: Environment, tasks: Sequence[EnvironmentTask]) -> GapProbe:
    """In float32, without autocast, on fresh rollouts of the policy as it is."""
    settings = config.channel(SdpoSettings)
    rolled = sample_rolled(policy, environment, config, tasks)
    hinter, room = hinter_of(config.hints, settings), config.training.max_tokens
    found, dropped = find_online_sites(rolled, hinter, policy.tokens, settings, max_teacher_tokens=room)
    sites = [(row, site) for row, some in zip(rolled, found, strict=True) for site in some]
    parts = [sites[first : first + ROWS_AT_ONCE] for first in range(0, len(sites), ROWS_AT_ONCE)]
    plain = [_compare(policy.model, part, settings, hinted=False) for part in parts]
    hinted = [_compare(policy.model, part, settings, hinted=True) for part in parts]
    student, teacher = (_join(hinted, name) for name in ("student_logprob_K", "teacher_logprob_K"))
    return GapProbe(
        rollouts=len(rolled),
        sites=len(sites),
        dropped=dict(dropped),
        plain_divergence=_join(plain, "divergence_K").max().item() if sites else 0.0,
        hinted_divergence=_mean(_join(hinted, "divergence_K")),
        disfavoured=_mean((teacher < student).float()),
        student_nll=-_mean(student),
        hinted_nll=-_mean(teacher),
    )


@torch.no_grad()
def _compare(model: Any, sites: Sequence[tuple[Rolled, OnlineSite]], settings: SdpoSettings, hinted: bool) -> Distilled:
    contexts = [
        site.teacher_context if hinted else row.prompt_ids + row.completion_ids[: site.start] for row, site in sites
    ]
    student = _states(
        model,
        [row.prompt_ids + row.completion_ids for row, _ in sites],
        [(len(row.prompt_ids) + site.start, len(row.prompt_ids) + site.end) for row, site in sites],
    )
    teacher = _states(
        model,
        [context + site.turn_ids for context, (_, site) in zip(contexts, sites, strict=True)],
        [(len(context), len(context) + len(site.turn_ids)) for context, (_, site) in zip(contexts, sites, strict=True)],
    )
    labels = [token for _, site in sites for token in site.turn_ids]
    lengths = [len(site.turn_ids) for _, site in sites]
    states = SiteStates(
        student, teacher, torch.tensor(labels, device=model.device), torch.tensor(lengths, device=model.device)
    )
    head = output_head(model)
    return distil(states, head, head, settings, len(sites))


def _states(model: Any, rows: Sequence[list[int]], spans: Sequence[tuple[int, int]]) -> Tensor:
    """Hidden states that predict the tokens of each span."""
    ids, mask = padded(rows, 0), padded([[1] * len(row) for row in rows], 0)
    hidden = last_hidden(model, ids.to(model.device), mask.to(model.device))
    # Position p predicts token p + 1.
    return torch.cat([hidden[row, start - 1 : end - 1] for row, (start, end) in enumerate(spans)])


def _join(parts: Sequence[Distilled], name: str) -> Tensor:
    return torch.cat([getattr(part, name) for part in parts]) if parts else torch.zeros(0)


def _mean(values: Tensor) -> float:
    return values.float().mean().item() if len(values) else 0.0
