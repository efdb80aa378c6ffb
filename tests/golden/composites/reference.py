"""The two losses that a backend can have, in float64, one row at a time: no padding, no chunks, no reused states.

    whole-vocabulary   GRPO/DAPO + alpha · JSD between whole distributions + beta · conservative DPO
    sampled-token      from log-probabilities of sampled tokens alone, for engines that give no logits: per-token
                       advantages at ratio 1, half the squared log-ratio to the teacher (its gradient is that of
                       reverse KL on average over samples), and DPO as fixed coefficients of both actions' log-probs

A backend declares in `COMPOSITE` which one its gradient equals.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True)
class Row:
    """A rollout: `mask` is 1 on sampled tokens of the completion."""

    prompt: list[int]
    completion: list[int]
    mask: list[int]
    advantage: float


@dataclass(frozen=True)
class Site:
    row: int
    start: int
    end: int
    teacher_context: list[int]


@dataclass(frozen=True)
class Pair:
    prompt: list[int]
    chosen: list[int]
    rejected: list[int]
    reference_chosen: float
    reference_rejected: float
    smoothing: float


@dataclass(frozen=True)
class Case:
    """What one optimiser step works on. `batches` of pairs weigh the same, however many pairs they hold."""

    rows: Sequence[Row]
    sites: Sequence[Site]
    batches: Sequence[Sequence[Pair]]
    jsd_beta: float = 0.5
    dpo_beta: float = 0.1


Terms = dict[str, Tensor]


def whole_vocabulary(model: Any, case: Case) -> Terms:
    def distance(site: Site) -> Tensor:
        student_TV, teacher_TV, _ = at_site(model, case, site)
        return divergence(student_TV, teacher_TV, case.jsd_beta).mean()

    return {
        "policy": policy(model, case),
        "sdpo": torch.stack([distance(site) for site in case.sites]).mean(),
        "replay": over_batches(case, lambda pair: preference(model, case, pair)),
    }


def sampled_token(model: Any, case: Case) -> Terms:
    def distance(site: Site) -> Tensor:
        student_TV, teacher_TV, turn = at_site(model, case, site)
        log_ratio_T = (student_TV - teacher_TV)[torch.arange(len(turn)), turn]
        return log_ratio_T.square().mean() / 2

    return {
        "policy": policy(model, case),
        "sdpo": torch.stack([distance(site) for site in case.sites]).mean(),
        "replay": over_batches(case, lambda pair: fixed_coefficients(model, case, pair)),
    }


COMPOSITES: dict[str, Callable[[Any, Case], Terms]] = {
    "whole-vocabulary": whole_vocabulary,
    "sampled-token": sampled_token,
}


def policy(model: Any, case: Case) -> Tensor:
    """DAPO at ratio 1: the mean over all sampled tokens of the step."""
    parts: list[Tensor] = []
    for row in case.rows:
        logprobs_T = sampled_logprobs(model, row.prompt, row.completion)
        mask_T = torch.tensor(row.mask, dtype=torch.bool)
        parts.append(-row.advantage * (logprobs_T - logprobs_T.detach()).exp()[mask_T])
    return torch.cat(parts).mean()


def divergence(student_TV: Tensor, teacher_TV: Tensor, beta: float) -> Tensor:
    """Of log-probabilities: 0 is KL(teacher‖student), 1 is KL(student‖teacher), else generalised Jensen-Shannon."""
    student, teacher = student_TV.exp(), teacher_TV.exp()
    if beta == 0:
        return (teacher * (teacher_TV - student_TV)).sum(-1)
    if beta == 1:
        return (student * (student_TV - teacher_TV)).sum(-1)
    mixed_TV = ((1 - beta) * student + beta * teacher).log()
    towards_teacher, towards_student = teacher * (teacher_TV - mixed_TV), student * (student_TV - mixed_TV)
    return (beta * towards_teacher + (1 - beta) * towards_student).sum(-1)


def preference(model: Any, case: Case, pair: Pair) -> Tensor:
    margin = margin_of(model, case, pair)
    logsigmoid = torch.nn.functional.logsigmoid
    return -((1 - pair.smoothing) * logsigmoid(margin) + pair.smoothing * logsigmoid(-margin))


def fixed_coefficients(model: Any, case: Case, pair: Pair) -> Tensor:
    """Linear in the log-probabilities, with the slope of the preference at the policy as it is."""
    chosen, rejected = sides(model, pair)
    margin = margin_of(model, case, pair).detach()
    slope = -((1 - pair.smoothing) * torch.sigmoid(-margin) - pair.smoothing * torch.sigmoid(margin))
    return case.dpo_beta * slope * (chosen - rejected)


def margin_of(model: Any, case: Case, pair: Pair) -> Tensor:
    chosen, rejected = sides(model, pair)
    return case.dpo_beta * ((chosen - pair.reference_chosen) - (rejected - pair.reference_rejected))


def sides(model: Any, pair: Pair) -> tuple[Tensor, Tensor]:
    chosen, rejected = (sampled_logprobs(model, pair.prompt, side).sum() for side in (pair.chosen, pair.rejected))
    return chosen, rejected


def over_batches(case: Case, loss: Callable[[Pair], Tensor]) -> Tensor:
    return torch.stack([torch.stack([loss(pair) for pair in batch]).mean() for batch in case.batches]).mean()


def at_site(model: Any, case: Case, site: Site) -> tuple[Tensor, Tensor, list[int]]:
    """Log-probabilities of student and teacher at each token of the turn; none flow back through the teacher."""
    row = case.rows[site.row]
    turn = row.completion[site.start : site.end]
    student_TV = all_logprobs(model, row.prompt + row.completion[: site.start], turn)
    with torch.no_grad():
        teacher_TV = all_logprobs(model, site.teacher_context, turn)
    return student_TV, teacher_TV, turn


def all_logprobs(model: Any, context: list[int], turn: list[int]) -> Tensor:
    # Position p predicts token p + 1.
    return model(torch.tensor([context + turn])).logits[0, len(context) - 1 : -1].log_softmax(-1)


def sampled_logprobs(model: Any, context: list[int], turn: list[int]) -> Tensor:
    return all_logprobs(model, context, turn)[torch.arange(len(turn)), torch.tensor(turn)]
