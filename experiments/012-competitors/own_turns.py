"""Imitation of one's own accepted turns: what the policy writes behind the hint becomes likelier without it.

At each site of the step's rollouts one turn is sampled behind the hint. Where the environment takes it without an
error, its negative log-likelihood in the plain conversation is added, mean over the turn's tokens, sum over the turns,
divided by the number of sites of the step, as channel 2's loss is. The turns reach the trainer as fresh stored pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch

from composer_replication.objective import TrdpoSettings
from composer_replication.training.backends.trl.trainer import ComposerReplicationTrainer
from composer_replication.training.channels import ReplayPreference
from composer_replication.training.lessons.online_sites import HintedTurn, OnlineSite, Rolled, find_online_sites
from composer_replication.training.models.tokens import ChatTokens
from composer_replication.training.stored.collator import Batch, ComposerDataCollator
from composer_replication.training.stored.examples import PairTokens, TraceExample
from shared.runner.arm import Setting

Candidate = tuple[Rolled, HintedTurn, OnlineSite]


def imitated(setting: Setting) -> Setting:
    return setting._replace(trainer=partial(OwnTurnsTrainer, setting.policy.tokens))


class FreshTurns:
    """The accepted turns of the newest rollouts, dealt out to the micro-steps of a step."""

    def __init__(self, collator: ComposerDataCollator, micro_steps: int) -> None:
        self._collator, self._micro_steps = collator, micro_steps
        self._pairs: list[PairTokens] = []
        self._sites, self._next = 0, 0

    def fill(self, pairs: Sequence[PairTokens], sites: int) -> None:
        self._pairs, self._sites, self._next = list(pairs), sites, 0

    def __iter__(self) -> FreshTurns:
        return self

    def __next__(self) -> Batch:
        own = self._pairs[self._next :: self._micro_steps]
        self._next += 1
        batch = self._collator([TraceExample([], [], 0.0, pairs=own)] if own else [])
        # Sites per micro-step: the sum over them is then divided by all sites, with an accepted turn or without.
        return {**batch, "dpo_number": torch.tensor(self._sites / self._micro_steps)} if own else batch


class OwnTurnsTrainer(ComposerReplicationTrainer):
    """Finds sites as channel 2 does, and imitates there instead of distilling."""

    def __init__(self, tokens: ChatTokens, *, channels: Any, hinter: Any, rollout_func: Any, **others: Any) -> None:
        (self._site_settings,) = (channel.settings for channel in channels if channel.name == "sdpo")
        self._site_tokens, self._site_hinter, self._retry = tokens, hinter, rollout_func.retried
        micro_steps = others["args"].gradient_accumulation_steps
        self._fresh = FreshTurns(ComposerDataCollator(tokens.tokenizer.pad_token_id), micro_steps)
        weight = self._site_settings.weight
        imitation = ReplayPreference(TrdpoSettings(weight=weight, sft_only=True, nll_weight=1.0))
        others |= {"alpha_sdpo": 0.0, "beta_replay": weight, "batches": self._fresh}
        super().__init__(channels=[imitation], rollout_func=rollout_func, **others)

    def _rollouts(self, generated: dict[str, Any], scored: dict[str, Any]) -> list[Rolled]:
        found = super()._rollouts(generated, scored)
        pairs: list[PairTokens] = []

        def accepts(candidates: Sequence[Candidate]) -> list[bool]:
            tried = self._retry(candidates)
            for (rolled, _, site), (turn_ids, accepted) in zip(candidates, tried, strict=True):
                if accepted:
                    context = rolled.prompt_ids + rolled.completion_ids[: site.start]
                    pairs.append(PairTokens(context, turn_ids, site.turn_ids))
            return [accepted for _, accepted in tried]

        sites, dropped = find_online_sites(
            found, self._site_hinter, self._site_tokens, self._site_settings, accepts, self._max_teacher_tokens
        )
        self._fresh.fill(pairs, sum(map(len, sites)) + dropped["not_accepted"])
        return found
