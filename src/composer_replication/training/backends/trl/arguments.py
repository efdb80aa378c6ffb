"""A run's settings as the arguments of the trainers that do the work."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState

from composer_replication.config import Config
from composer_replication.objective import GrpoSettings

from ...metrics import PROJECT, report_to


def grpo_config(config: Config, scratch: Path) -> Any:
    from trl.trainer.grpo_config import GRPOConfig

    settings, grpo = config.training, config.channel(GrpoSettings)
    rollouts = settings.prompts_per_step * settings.group_size
    machine = config.hardware.grpo_arguments(rollouts, PartialState().num_processes, torch.cuda.is_available())
    return GRPOConfig(
        **common_arguments(config, scratch),
        **machine,
        **config.sampling.grpo_arguments(),
        num_generations=settings.group_size,
        chat_template_kwargs=config.model.chat_template_kwargs or None,
        temperature=settings.temperature,
        loss_type="dapo",
        epsilon=grpo.clip_low,
        epsilon_high=grpo.clip_high,
        beta=settings.reference_kl,
        use_bias_correction_kl=False,
    )


def offline_arguments(config: Config, scratch: Path) -> Any:
    from transformers import TrainingArguments

    hardware, on_gpu = config.hardware, torch.cuda.is_available()
    return TrainingArguments(
        **common_arguments(config, scratch),
        per_device_train_batch_size=config.training.traces_per_step,
        use_cpu=not on_gpu,
        bf16=hardware.autocasts(on_gpu),
        gradient_checkpointing=hardware.gradient_checkpointing,
        remove_unused_columns=False,
    )


def common_arguments(config: Config, scratch: Path) -> dict[str, Any]:
    settings = config.training
    return {
        "output_dir": str(scratch),
        "seed": config.seed,
        "max_steps": settings.steps,
        "learning_rate": settings.learning_rate,
        "lr_scheduler_type": "constant_with_warmup",
        "warmup_steps": settings.rate_warmup_steps,
        "adam_beta2": 0.99,
        "logging_steps": 1,
        "logging_nan_inf_filter": False,
        "save_strategy": "steps" if settings.checkpoint_every else "no",
        "save_steps": settings.checkpoint_every or 500,
        "save_total_limit": 2,
        "report_to": report_to(settings.report_to),
        "project": PROJECT,
        "run_name": scratch.resolve().parents[1].name,
        "disable_tqdm": True,
    }
