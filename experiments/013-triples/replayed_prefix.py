"""Replayed-prefix distillation (after arXiv:2607.04763) at the states of the stored pairs.

The conversation before a state is read from the store, the policy writes one action behind it, and the divergence
KL(policy ‖ teachers) is lowered at the tokens that it wrote: mean over the action's tokens, then over the states of the
batch. The teachers are simulated; their three distributions are averaged. No environment takes part.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from composer_replication.training.backends.trl.trainer import ComposerReplicationTrainer
from composer_replication.training.models.loading import Policy, load_saved_policy
from composer_replication.training.models.states import evaluating, last_hidden, output_head
from composer_replication.training.rollouts.sampling import sample_turns
from shared.runner.arm import Setting

TRIES_APART = 5
"""Added to the seed, so that these turns are not drawn like the rollouts."""


def asked_again(setting: Setting) -> Setting:
    teachers = [
        load_saved_policy(path, name).model.requires_grad_(False) for name, path in setting.sources.teachers.items()
    ]
    return setting._replace(trainer=partial(_trainer, setting, teachers))


def _trainer(setting: Setting, teachers: Sequence[Any], **arguments: Any) -> ComposerReplicationTrainer:
    if arguments["batches"] is None:  # the teachers agreed on nothing new anywhere
        return ComposerReplicationTrainer(**arguments)
    channel = ReplayedPrefix(setting.policy, teachers, setting.config.training.max_turn_tokens, setting.config.seed)
    return ComposerReplicationTrainer(**{**arguments, "channels": [*arguments["channels"], channel]})


class ReplayedPrefix:
    name = "prefix"
    weight = 1.0

    def __init__(self, policy: Policy, teachers: Sequence[Any], max_turn_tokens: int, seed: int) -> None:
        self._tokens, self._teachers, self._max_turn_tokens = policy.tokens, teachers, max_turn_tokens
        self._generator = torch.Generator(device=policy.model.device).manual_seed(seed + TRIES_APART)
        self.metrics: dict[str, float] = {}

    def loss(self, model: Any, batch: Mapping[str, Tensor]) -> Tensor:
        contexts = [
            ids_T[: int(own_T.nonzero()[0])].tolist()
            for ids_T, own_T in zip(batch["dpo_chosen_input_ids"], batch["dpo_chosen_response_mask"], strict=True)
        ]
        self.metrics = {"states": float(len(contexts))}
        if not contexts:
            return batch["rewards"].new_zeros(())
        turns = self._written(model, contexts)
        width = max(len(context) + len(turn) for context, turn in zip(contexts, turns, strict=True))
        ids_BT = batch["dpo_chosen_input_ids"].new_zeros(len(contexts), width)
        own_BT = torch.zeros_like(ids_BT, dtype=torch.bool)
        for row, (context, turn) in enumerate(zip(contexts, turns, strict=True)):
            ids_BT[row, : len(context) + len(turn)] = ids_BT.new_tensor(context + turn)
            own_BT[row, len(context) : len(context) + len(turn)] = True
        # Padding is on the right, so causal attention alone keeps it out. Position p predicts token p + 1.
        before_BT = own_BT[:, 1:]
        student_NV = _logprobs(model, ids_BT, before_BT)
        with torch.no_grad(), _without_cache(ids_BT.device):
            asked = torch.stack([_logprobs(teacher, ids_BT, before_BT) for teacher in self._teachers])
            teacher_NV = asked.logsumexp(0) - torch.tensor(float(len(self._teachers))).log()
        divergence_N = (student_NV.exp() * (student_NV - teacher_NV)).sum(-1)
        lengths_B = before_BT.sum(1)
        weights_N = (1 / lengths_B).repeat_interleave(lengths_B)
        self.metrics["divergence"] = divergence_N.mean().item()
        return (divergence_N * weights_N).sum() / len(contexts)

    def _written(self, model: Any, contexts: Sequence[Sequence[int]]) -> list[list[int]]:
        with evaluating(model), _without_cache(model.device):
            turns = sample_turns(
                model,
                contexts,
                end_of_turn_id=self._tokens.end_of_turn_id,
                pad_id=self._tokens.tokenizer.pad_token_id,
                max_new_tokens=self._max_turn_tokens,
                temperature=1.0,
                generator=self._generator,
            )
        return [turn.ids for turn in turns]


def _logprobs(model: Any, ids_BT: Tensor, before_BT: Tensor) -> Tensor:
    head = output_head(model)
    hidden_NH = last_hidden(model, ids_BT)[:, :-1][before_BT]
    return (F.linear(hidden_NH, head.weight_VH, head.bias_V) * head.scale).float().log_softmax(-1)


def _without_cache(device: torch.device) -> torch.autocast:
    """Weights that are cast without a graph must not be kept for the pass with one."""
    kind = device.type
    enabled, dtype = torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)
    return torch.autocast(kind, dtype, enabled=enabled, cache_enabled=False)
