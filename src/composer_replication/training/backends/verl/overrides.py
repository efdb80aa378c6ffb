"""A run's settings as one flat list of verl's overrides, checked against verl's own schema before Ray starts."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from composer_replication.config import Config
from composer_replication.environments.protocol import EpisodeLimits
from composer_replication.errors import UsageError
from composer_replication.objective import GrpoSettings, SdpoSettings, TrdpoSettings

CONFIG_FILE, STEPS_FILE, TASKS_FILE = "config.json", "steps.jsonl", "tasks.parquet"
FREE = (
    "composer.",
    "ray_kwargs.ray_init.",
    "actor_rollout_ref.model.override_config.",
    "actor_rollout_ref.actor.fsdp_config.mixed_precision.",
)
"""Where verl's schema is open, so that only `+key` adds something. Beyond these, `+` would hide a misspelt key."""
FIXED = (
    "actor_rollout_ref.actor.ppo_mini_batch_size",
    "actor_rollout_ref.actor.shuffle",
    "actor_rollout_ref.rollout.temperature",
    "trainer.v1.trainer_mode",
)
"""What our trainer takes as given where channel 2 or 3 has a weight: a step is one update over all rows in their order,
and stored rows are scored at the temperature of the rollouts."""
KEPT_CHECKPOINTS = 2
ROOM = 8
"""Rows of full length in one pass, where `hardware.rollouts_per_device` says nothing."""


@dataclass(frozen=True)
class VerlJob:
    folder: Path
    """Read by all of verl's processes: on a cluster it is on a disk that all nodes have."""
    model: Path
    ranks: int
    prompt_tokens: int
    limits: EpisodeLimits
    env: Mapping[str, str]
    """For all of verl's processes."""
    on_gpu: bool = True


def overrides(config: Config, job: VerlJob, ray_address: str | None = None) -> list[str]:
    training, hardware, grpo = config.training, config.hardware, config.channel(GrpoSettings)
    response_tokens = job.limits.room(training.max_turn_tokens)
    row_tokens = max(job.prompt_tokens + response_tokens, training.max_tokens)
    pass_tokens = row_tokens * (hardware.rollouts_per_device or ROOM)
    precision = "bf16" if hardware.autocasts(job.on_gpu) else "fp32"
    actor, rollout = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"
    chosen: dict[str, Any] = {
        "data.train_files": str(job.folder / TASKS_FILE),
        "data.val_files": str(job.folder / TASKS_FILE),
        "data.train_batch_size": training.prompts_per_step,
        "data.max_prompt_length": job.prompt_tokens,
        "data.max_response_length": response_tokens,
        "data.shuffle": False,
        "data.filter_overlong_prompts": False,
        "data.dataloader_num_workers": 0,
        "actor_rollout_ref.model.path": str(job.model),
        "actor_rollout_ref.model.enable_gradient_checkpointing": hardware.gradient_checkpointing,
        f"{actor}.strategy": "fsdp2",
        f"{actor}.fsdp_config.strategy": "fsdp2",
        f"{actor}.fsdp_config.model_dtype": "fp32" if hardware.weights == "float32" else "bf16",
        # verl computes in bfloat16 whatever `dtype` says, unless this does.
        f"+{actor}.fsdp_config.mixed_precision.param_dtype": precision,
        f"{actor}.ppo_mini_batch_size": training.prompts_per_step,
        f"{actor}.use_dynamic_bsz": True,
        f"{actor}.ppo_max_token_len_per_gpu": pass_tokens,
        f"{actor}.optim.lr": training.learning_rate,
        f"{actor}.optim.lr_warmup_steps": training.rate_warmup_steps,
        f"{actor}.optim.weight_decay": 0.0,
        f"{actor}.optim.betas": [0.9, 0.99],
        f"{actor}.clip_ratio_low": grpo.clip_low,
        f"{actor}.clip_ratio_high": grpo.clip_high,
        f"{actor}.loss_agg_mode": "token-mean",
        f"{actor}.use_kl_loss": training.reference_kl > 0,
        f"{actor}.kl_loss_coef": training.reference_kl,
        f"{actor}.checkpoint.save_contents": ["model", "optimizer", "extra", "hf_model"],
        f"{rollout}.n": training.group_size,
        f"{rollout}.temperature": training.temperature,
        f"{rollout}.calculate_log_probs": True,
        f"{rollout}.name": "vllm",
        f"{rollout}.tensor_model_parallel_size": 1,
        f"{rollout}.log_prob_use_dynamic_bsz": True,
        f"{rollout}.log_prob_max_token_len_per_gpu": pass_tokens,
        f"{rollout}.agent.default_agent_loop": "composer",
        f"{rollout}.agent.num_workers": job.ranks,
        "algorithm.adv_estimator": "grpo_composer",
        "critic.enable": False,
        "reward.num_workers": 1,
        "trainer.v1.trainer_mode": "composer_sync",
        "trainer.n_gpus_per_node": job.ranks,
        "trainer.nnodes": 1,
        "trainer.total_epochs": 1,
        "trainer.total_training_steps": training.steps,
        "trainer.logger": ["console", "file"],
        "trainer.project_name": "composer",
        "trainer.experiment_name": "composer",
        "trainer.val_before_train": False,
        "trainer.test_freq": -1,
        "trainer.save_freq": training.checkpoint_every or training.steps,
        "trainer.max_actor_ckpt_to_keep": KEPT_CHECKPOINTS,
        "trainer.default_local_dir": str(job.folder / "checkpoints"),
        "trainer.resume_mode": "auto",
        "hydra.run.dir": str(job.folder / "hydra"),
        "+composer.folder": str(job.folder),
        **{f"+ray_kwargs.ray_init.runtime_env.env_vars.{name}": value for name, value in job.env.items()},
        **({"+ray_kwargs.ray_init.address": ray_address} if ray_address else {}),
    }
    return [f"{key}={_written(value)}" for key, value in chosen.items()]


def refuse_fixed_overrides(config: Config, override: Sequence[str]) -> None:
    if not (config.channel(SdpoSettings).weight or config.channel(TrdpoSettings).weight):
        return
    for one in override:
        key = one.partition("=")[0].lstrip("+~")
        if any(f"{fixed}.".startswith(f"{key}.") for fixed in FIXED):
            raise UsageError(
                f"--override {key} does not go with channels 2 and 3 in verl",
                "take it out, or set the weights of sdpo and trdpo to 0",
            )


def refuse_unknown_overrides(chosen: Sequence[str]) -> None:
    """Hydra's own composition, of the file that verl's entry point reads."""
    from hydra import compose, initialize_config_module  # pyright: ignore[reportMissingImports]
    from hydra.errors import HydraException  # pyright: ignore[reportMissingImports]

    for override in chosen:
        key = override.partition("=")[0]
        if key.startswith(("+", "~")) and not key.lstrip("+~").startswith(FREE):
            raise UsageError(f"verl's override {key} adds or removes a key", f"only {', '.join(FREE)} are open")
    try:
        with initialize_config_module("verl.trainer.config", version_base=None):
            compose("ppo_trainer", overrides=list(chosen))
    except HydraException as error:
        reason = " ".join(str(error).split())
        raise UsageError(f"verl's schema refuses an override: {reason[:300]}", "mend it, or take it out") from error


def _written(value: Any) -> str:
    """In Hydra's grammar. Strings are quoted and read back as they are: a backslash is itself but before a quote, the
    string's end, or an interpolation, where each is doubled."""
    if value is None or isinstance(value, bool | int | float):
        return json.dumps(value)
    if isinstance(value, list | tuple):
        return f"[{','.join(_written(each) for each in value)}]"
    literal = re.sub(r"(\\*)\$\{", r"\1\1\\${", str(value))
    quoted = re.sub(r"(\\+)(?='|$)", r"\1\1", literal).replace("'", r"\'")
    return f"'{quoted}'"
