"""Loaded by verl in each of its processes (entry point group `verl.plugins`). Registers, under names of ours:

    grpo_composer   the origin's advantage estimator        composer        the agent loop over `Environment`
    composer_sync   the trainer that adds channels 2 and 3

verl hides a plugin that fails to load, so `train_verl.refuse_missing_plugin` asks for each of these.
"""

# pyright: basic, reportMissingImports=false

from __future__ import annotations

from typing import Any

from torch import Tensor
from verl.trainer.ppo.core_algos import compute_grpo_outcome_advantage, register_adv_est

from . import agent_loop, trainer

__all__ = ["agent_loop", "grpo_composer", "trainer"]


@register_adv_est("grpo_composer")
def grpo_composer(
    token_level_rewards: Tensor, response_mask: Tensor, index: Any = None, config: Any = None, **others: Any
) -> tuple[Tensor, Tensor]:
    """The origin's estimator: the group's advantages, and what the added channels put on top of them.

    verl 0.9 hands no other column of the batch to an estimator, so the origin's two further terms never come here;
    they are added in `loss.composer_loss`, where all columns arrive.
    """
    by_std = config.get("norm_adv_by_std_in_grpo", True) if config is not None else True
    return compute_grpo_outcome_advantage(token_level_rewards, response_mask, index, norm_adv_by_std_in_grpo=by_std)
