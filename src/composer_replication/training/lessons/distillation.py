"""Channel 2's loss: the divergence between the policy and itself with the hint, over the tokens of error turns.

    L2 = Σ over sites of the mean over the turn's tokens of D / number of sites

With `importance_clip` each token's D is weighed by min(clip, π(token) / π of whoever sampled it), without a gradient.
Gate G3 drops a site where the hint does not make the sampled turn less likely on average: nothing there says that the
turn was wrong. So is a site with a state that is not finite. A dropped site still counts in the denominator, so that no
rank has to wait for another's verdict.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from composer_replication.losses import hidden_divergence
from composer_replication.objective import SdpoSettings

from ..models.states import Head, sent


class SiteStates(NamedTuple):
    """Hidden states that predict the tokens of K turns, turn after turn; `lengths_K`, on the CPU, cuts them."""

    student_NH: Tensor
    teacher_NH: Tensor
    labels_N: Tensor
    lengths_K: Tensor
    behaviour_N: Tensor | None = None
    """Log-probability that whoever sampled a token gave it."""


class Distilled(NamedTuple):
    loss: Tensor
    """Times the weight."""
    divergence_K: Tensor
    """Mean over each turn's tokens, before any gate."""
    kept_K: Tensor
    finite_K: Tensor
    student_logprob_K: Tensor
    teacher_logprob_K: Tensor
    importance_N: Tensor | None = None
    """Before it is cut at the clip."""


def distil(
    states: SiteStates,
    student_head: Head,
    teacher_head: Head,
    settings: SdpoSettings,
    number_of_sites: Tensor | float,
    weight: float = 1.0,
    sampling_temperature: float = 1.0,
) -> Distilled:
    """`weight` goes to the tokens, because a factor on the loss would cost a pass over the gradient of the head."""
    device = states.labels_N.device
    site_N = sent(repeated(torch.arange(len(states.lengths_K)), states.lengths_K), device)
    lengths_K = sent(states.lengths_K, device)

    def mean_K(values_N: Tensor) -> Tensor:
        return values_N.new_zeros(len(lengths_K)).index_add_(0, site_N, values_N) / lengths_K

    with torch.no_grad():
        student_N = student_head.logprobs(states.student_NH, states.labels_N)
        student_K = mean_K(student_N)
        teacher_K = mean_K(teacher_head.logprobs(states.teacher_NH, states.labels_N))
    finite_K = student_K.isfinite() & teacher_K.isfinite()
    kept_K = finite_K & (teacher_K < student_K) if settings.require_disfavour else finite_K
    weights_N = (weight * kept_K / (lengths_K * number_of_sites))[site_N]
    importance_N = None
    if settings.importance_clip is not None:
        assert states.behaviour_N is not None
        with torch.no_grad():
            if sampling_temperature != 1:
                student_N = student_head.logprobs(states.student_NH, states.labels_N, sampling_temperature)
            importance_N = importance(student_N, states.behaviour_N)
            weights_N = weights_N * importance_N.clamp(max=settings.importance_clip)
    # No weight makes a number of what is none.
    broken_N1 = ~finite_K[site_N, None]
    found = hidden_divergence(
        states.student_NH.masked_fill(broken_N1, 0),
        student_head.weight_VH,
        states.teacher_NH.masked_fill(broken_N1, 0),
        teacher_head.weight_VH,
        weights_N=weights_N,
        beta=settings.jsd_beta,
        temperature=settings.temperature / student_head.scale,
        top_k=settings.top_k,
        token_clip=settings.token_clip,
        student_bias_V=student_head.bias_V,
        teacher_bias_V=teacher_head.bias_V,
    )
    return Distilled(found.loss, mean_K(found.divergence_N), kept_K, finite_K, student_K, teacher_K, importance_N)


def importance(now_N: Tensor, behaviour_N: Tensor) -> Tensor:
    """How much likelier a token is now than when it was sampled; within e²⁰, where float32 still counts."""
    return (now_N - behaviour_N).clamp(-20, 20).exp()


def mean_divergence(student_NH: Tensor, teacher_NH: Tensor, head: Head, settings: SdpoSettings) -> Tensor:
    """Over all tokens of some turns, under one head."""
    found = hidden_divergence(
        student_NH,
        head.weight_VH,
        teacher_NH,
        head.weight_VH,
        weights_N=torch.zeros(len(student_NH), device=student_NH.device),
        beta=settings.jsd_beta,
        temperature=settings.temperature / head.scale,
        student_bias_V=head.bias_V,
        teacher_bias_V=head.bias_V,
    )
    return found.divergence_N.mean()


def places(starts: Sequence[int], lengths_K: Tensor) -> Tensor:
    """`start, start + 1, …` of every turn, one after the other."""
    first_K = lengths_K.cumsum(0) - lengths_K
    begin_K = torch.tensor(list(starts), dtype=torch.long) - first_K
    return torch.arange(int(lengths_K.sum())) + repeated(begin_K, lengths_K)


def repeated(values_K: Tensor, lengths_K: Tensor) -> Tensor:
    """The value of each turn at every token of it, on the CPU. torch's own wakes all threads for it: milliseconds."""
    return torch.from_numpy(np.repeat(values_K.numpy(), lengths_K.numpy()))
