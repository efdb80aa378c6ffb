"""A run's settings as the arguments of the trainers that do the work."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState

from composer_replication.config import Config, TrainingConfig

from ...metrics import report_to
from ...settings import ComposerSettings


def composer_settings(training: TrainingConfig) -> ComposerSettings:
    return ComposerSettings(
        jsd_beta=training.sdpo_jsd_beta,
        sdpo_top_k=training.sdpo_top_k,
        sdpo_token_clip=training.sdpo_token_clip,
        teacher=training.sdpo_teacher,
        ema_rate=training.sdpo_ema_rate,
        sites_per_rollout=training.sdpo_sites_per_rollout,
        require_disfavour=training.sdpo_require_disfavour,
        kinds_off=frozenset(training.sdpo_kinds_off),
        max_teacher_tokens=training.max_tokens,
        dpo_beta=training.dpo_beta,
        dpo_nll_weight=training.dpo_nll_weight,
        dpo_dpop_weight=training.dpo_dpop_weight,
        dpo_length_normalised=training.dpo_length_normalised,
        dpo_sft_only=training.dpo_sft_only,
        warmup_share=training.channel_warmup_share,
        decay_share=training.channel_decay_share,
        gradient_ratio_cap=training.gradient_ratio_cap,
        dynamic_sampling_rounds=training.dynamic_sampling_rounds,
    )


def grpo_config(config: Config, scratch: Path) -> Any:
    from trl.trainer.grpo_config import GRPOConfig

    settings, rollouts = config.training, config.training.prompts_per_step * config.training.group_size
    machine = config.hardware.grpo_arguments(rollouts, PartialState().num_processes, torch.cuda.is_available())
    return GRPOConfig(
        **_common(config, scratch),
        **machine,
        num_generations=settings.group_size,
        temperature=settings.temperature,
        loss_type="dapo",
        epsilon_high=0.28,
        beta=settings.reference_kl,
        use_bias_correction_kl=False,
    )


def offline_arguments(config: Config, scratch: Path) -> Any:
    from transformers import TrainingArguments

    hardware, on_gpu = config.hardware, torch.cuda.is_available()
    return TrainingArguments(
        **_common(config, scratch),
        per_device_train_batch_size=config.training.traces_per_step,
        use_cpu=not on_gpu,
        bf16=hardware.autocasts(on_gpu),
        gradient_checkpointing=hardware.gradient_checkpointing,
        remove_unused_columns=False,
    )


def _common(config: Config, scratch: Path) -> dict[str, Any]:
    settings = config.training
    return {
        "output_dir": str(scratch),
        "seed": config.seed,
        "max_steps": settings.steps,
        "learning_rate": settings.learning_rate,
        "lr_scheduler_type": "constant_with_warmup",
        "warmup_steps": 3,
        "adam_beta2": 0.99,
        "logging_steps": 1,
        "logging_nan_inf_filter": False,
        "save_strategy": "steps" if settings.checkpoint_every else "no",
        "save_steps": settings.checkpoint_every or 500,
        "save_total_limit": 2,
        "report_to": report_to(settings.report_to),
        "disable_tqdm": True,
    }
