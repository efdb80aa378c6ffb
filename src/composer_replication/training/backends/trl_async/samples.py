"""Played groups as the samples of TRL's queue, and what channel 2 has to know of them on the way to the loss."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from trl.experimental.async_grpo.async_rollout_worker import RolloutSample as QueuedSample

from composer_replication.environments.protocol import Episode

from ...lessons.distillation import places
from ...lessons.online_sites import OnlineSite
from ...rollouts.worker import Rollout
from ...step.online import RowSite


class SampleMetrics(dict[str, float]):
    """The one thing of a sample that TRL hands through to the collator as it is: so the sites ride on it."""

    sites: Sequence[OnlineSite] = ()


def queued_samples(
    rollouts: Sequence[Rollout[Episode]],
    rewards: Sequence[float],
    sites: Sequence[Sequence[OnlineSite]],
    group: int,
    metrics: dict[str, float],
) -> list[QueuedSample]:
    """Advantages as TRL's own worker computes them: over the group, by its standard deviation."""
    scored = np.asarray(rewards, dtype=np.float64)
    advantages = (scored - scored.mean()) / (scored.std() + 1e-8)
    made: list[QueuedSample] = []
    for rollout, reward, advantage, own in zip(rollouts, rewards, advantages, sites, strict=True):
        told = SampleMetrics({**metrics, "reward": reward, "rewards/episode_reward": rollout.reward})
        told["frac_reward_zero_std"] = float(scored.std() == 0)
        told.sites = own
        before = len(rollout.prompt_ids)
        made.append(
            QueuedSample(
                prompt=[dict[str, Any](message) for message in rollout.episode.messages],
                completion=[{"role": "assistant", "content": turn.text} for turn in rollout.turns],
                input_ids=np.asarray(rollout.context_ids),
                completion_mask=np.asarray([0] * before + rollout.sampled_mask),
                old_log_probs=np.asarray([0.0] * before + rollout.logprobs, dtype=np.float32),
                advantage=float(advantage),
                model_version=min(rollout.versions, default=0),
                group_id=group,
                metrics=told,
            )
        )
    return made


class PackedRows(NamedTuple):
    """Several samples in one packed row. `token_index_M` says which position predicts each sampled token."""

    samples: Sequence[dict[str, Any]]
    token_index_M: Tensor

    @property
    def size(self) -> int:
        return sum(len(sample["input_ids"]) for sample in self.samples)

    @property
    def sites(self) -> list[RowSite]:
        return [(place, site) for place, sample in enumerate(self.samples) for site in _sites_of(sample)]

    def predictors(self, sites: Sequence[RowSite]) -> tuple[Tensor, Tensor]:
        masks = [torch.as_tensor(sample["completion_mask"]).long() for sample in self.samples]
        first = [0, *torch.tensor([int(mask.sum()) for mask in masks]).cumsum(0).tolist()]
        ranks = [first[row] + int(masks[row][: self._place(row, site.start)].sum()) for row, site in sites]
        lengths_K = torch.tensor([len(site.turn_ids) for _, site in sites], dtype=torch.long)
        column_N = self.token_index_M[places(ranks, lengths_K)]
        return torch.zeros_like(column_N), column_N

    def tokens(self, sites: Sequence[RowSite]) -> Tensor:
        found: list[int] = []
        for row, site in sites:
            start = self._place(row, site.start)
            found += torch.as_tensor(self.samples[row]["input_ids"])[start : start + len(site.turn_ids)].tolist()
        return torch.tensor(found, dtype=torch.long, device=self.token_index_M.device)

    def context(self, row: int, start: int) -> list[int]:
        return torch.as_tensor(self.samples[row]["input_ids"])[: self._place(row, start)].tolist()

    def _place(self, row: int, start: int) -> int:
        """In the sample, of a place in its completion, which begins with the first sampled token."""
        return int(torch.as_tensor(self.samples[row]["completion_mask"]).long().argmax()) + start


def _sites_of(sample: dict[str, Any]) -> Sequence[OnlineSite]:
    return getattr(sample["metrics"], "sites", ())
