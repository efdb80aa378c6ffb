"""TRL's own experimental SDPO at our sites: `trl.experimental.sdpo.SDPOTrainer` behind an adapter.

Its contract is one sampled answer to one prompt, with one mask for attention and loss, so a rollout with tools does not
fit. One turn of it does: the completion is the rollout's first error turn, the prompt the conversation before it, and
the teacher's prompt the same conversation with the hint. A rollout without an error turn keeps its row, with its first
turn and a mask of 0. Rollouts, detectors and hints are ours; loss, batching, optimiser and schedule are TRL's.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from trl.experimental.sdpo import SDPOConfig, SDPOTrainer

from composer_replication.objective import SdpoSettings
from composer_replication.training.lessons.online_sites import Rolled, find_online_sites, turn_spans
from composer_replication.training.models.tokens import ChatTokens
from shared.runner.arm import Setting

SAME_ARGUMENTS = (
    "output_dir", "seed", "max_steps", "learning_rate", "lr_scheduler_type", "warmup_steps", "adam_beta2",
    "logging_steps", "logging_nan_inf_filter", "save_strategy", "report_to", "disable_tqdm", "use_cpu", "bf16",
    "per_device_train_batch_size", "gradient_accumulation_steps", "gradient_checkpointing", "num_generations",
    "temperature",
)  # fmt: skip
"""Of TRL's GRPO and SDPO; every other is SDPO's default, but the teacher."""


def adapted(setting: Setting) -> Setting:
    settings = setting.config.channel(SdpoSettings)
    return setting._replace(trainer=partial(_trainer, setting.policy.tokens, settings))


def _trainer(
    tokens: ChatTokens,
    settings: SdpoSettings,
    *,
    args: Any,
    model: Any,
    processing_class: Any,
    train_dataset: Any,
    callbacks: Any,
    rollout_func: Any,
    hinter: Any,
    **unused: Any,
) -> SDPOTrainer:
    config = SDPOConfig(**{name: getattr(args, name) for name in SAME_ARGUMENTS}, teacher_model_kind="live")
    feed = SiteRows(tokens, settings, rollout_func, hinter)
    return SitesTrainer(
        feed,
        model=model,
        reward_funcs=[feed.episode_reward],
        args=config,
        train_dataset=train_dataset,
        processing_class=processing_class,
        callbacks=list(callbacks),
    )


class SiteRows:
    """One row per rollout: the conversation before its first error turn, that turn, and the hinted conversation."""

    def __init__(self, tokens: ChatTokens, settings: SdpoSettings, rollout_func: Any, hinter: Any) -> None:
        self._tokens, self._settings, self._play, self._hinter = tokens, settings, rollout_func, hinter
        self._rewards: list[float] = []
        self.contexts: list[list[int]] = []
        self.turns: list[list[int]] = []
        self.teacher_contexts: list[list[int]] = []
        self.has_site: list[bool] = []

    def play(self, prompts: list[Any], trainer: SDPOTrainer) -> None:
        columns = self._play(prompts, trainer)
        self._rewards = columns["episode_reward"]
        names = ("trace", "prompt_ids", "completion_ids", "env_mask")
        rolled = [Rolled(*row) for row in zip(*(columns[name] for name in names), strict=True)]
        found, _ = find_online_sites(rolled, self._hinter, self._tokens, self._settings)
        self.has_site = [bool(sites) for sites in found]
        spans = [
            (sites[0].start, sites[0].end) if sites else turn_spans(one.sampled_mask)[0]
            for one, sites in zip(rolled, found, strict=True)
        ]
        self.contexts = [
            one.prompt_ids + one.completion_ids[:start] for one, (start, _) in zip(rolled, spans, strict=True)
        ]
        self.turns = [one.completion_ids[start:end] for one, (start, end) in zip(rolled, spans, strict=True)]
        self.teacher_contexts = [
            sites[0].teacher_context if sites else plain for sites, plain in zip(found, self.contexts, strict=True)
        ]

    def episode_reward(self, **columns: Any) -> list[float]:
        return self._rewards


class SitesTrainer(SDPOTrainer):
    def __init__(self, feed: SiteRows, **arguments: Any) -> None:
        super().__init__(**arguments)
        self._feed = feed
        self.teacher_context_builder: Any = HintedContexts(self, feed)

    def sample_rollouts(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        feed, pad_id, device = self._feed, self._tokenizer.pad_token_id, self.accelerator.device
        feed.play([example["prompt"] for example in inputs], self)
        prompt_ids, prompt_mask = padded(feed.contexts, pad_id, device, left=True)
        completion_ids, completion_mask = padded(feed.turns, pad_id, device, left=False)
        return {
            "prompt_ids": prompt_ids,
            "prompt_mask": prompt_mask,
            "completion_ids": completion_ids,
            "completion_mask": completion_mask,
            "raw_completion_lengths": completion_mask.sum(1),
        }


class HintedContexts:
    """Takes the place of TRL's builder, whose teacher reads successful answers of the group."""

    def __init__(self, trainer: SDPOTrainer, feed: SiteRows) -> None:
        self._trainer, self._feed = trainer, feed
        self.last_metrics: dict[str, float] = {}

    def build(
        self, output: dict[str, Any], prompts: list[Any], rewards: Tensor, feedbacks: list[Any] | None = None
    ) -> dict[str, Tensor]:
        pad_id, device = self._trainer._tokenizer.pad_token_id, self._trainer.accelerator.device
        ids_BP, mask_BP = padded(self._feed.teacher_contexts, pad_id, device, left=True)
        has_site_B = torch.tensor(self._feed.has_site, dtype=torch.float32, device=device)
        self.last_metrics = {
            "self_distillation/reprompt_sample_fraction": has_site_B.mean().item(),
            "self_distillation/success_group_fraction": rewards.float().mean().item(),
        }
        return {
            "teacher_input_ids": torch.cat([ids_BP, output["completion_ids"]], 1),
            "teacher_attention_mask": torch.cat([mask_BP, output["completion_mask"]], 1),
            "self_distillation_mask": has_site_B,
        }


def padded(rows: Sequence[Sequence[int]], pad_id: int, device: Any, left: bool) -> tuple[Tensor, Tensor]:
    """Ids and their mask."""
    width = max(map(len, rows))
    gaps = [width - len(row) for row in rows]
    ids = [[pad_id] * gap + [*row] if left else [*row] + [pad_id] * gap for row, gap in zip(rows, gaps, strict=True)]
    mask = [
        [0] * gap + [1] * len(row) if left else [1] * len(row) + [0] * gap for row, gap in zip(rows, gaps, strict=True)
    ]
    return torch.tensor(ids, device=device), torch.tensor(mask, device=device)
