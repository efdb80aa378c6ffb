"""Three channels in one step: fresh toolbox rollouts for the policy gradient, stored traces for the other two.

Reads the starting policy, tokenised rollouts, hints and pairs; returns one `TrainingStep` per optimiser step and leaves
the trained weights in the policy.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState
from transformers import PrinterCallback, TrainerCallback

from composer_replication.config import Config, TrainingConfig
from composer_replication.environments.toolbox import ToolboxTask, task_stream
from composer_replication.progress import Progress

from .checkpoints import latest
from .collator import ComposerDataCollator
from .examples import TraceExample
from .models import Policy
from .online_sites import TraceHinter
from .reference import with_reference_logprobs
from .settings import ComposerSettings
from .stored import TrainingStep
from .stored_batches import StoredBatches
from .toolbox_rollouts import ToolboxRollouts, episode_reward, error_penalty
from .trl_trainer import ComposerReplicationTrainer

# Training tasks start beyond those of any warm-up.
FIRST_TRAINING_TASK = 100_000_000
TASKS_PER_SEED = 1_000_000


def train(
    policy: Policy, config: Config, examples: Sequence[TraceExample], scratch: Path, progress: Progress
) -> list[TrainingStep]:
    """Goes on from the last checkpoint in `scratch`, if there is one; what it ends with is the same to the last bit."""
    logging.getLogger("trl").setLevel(logging.ERROR)
    settings, state = config.training, PartialState()
    tasks = training_tasks(config)
    collator = ComposerDataCollator(policy.tokenizer.pad_token_id)
    stored = with_reference_logprobs(policy, examples, collator)
    if not stored:
        progress.note("no stored sites or pairs with token ids: channels on stored traces have nothing to learn from")
    place = (state.process_index, state.num_processes)
    batches = StoredBatches(stored, collator, settings.traces_per_step, config.seed, *place) if stored else None
    rollouts = ToolboxRollouts(policy, tasks, config, state.process_index)
    online = settings.sdpo_from == "rollouts"
    trainer = ComposerReplicationTrainer(
        model=policy.model,
        processing_class=policy.tokenizer,
        args=grpo_config(config, scratch),
        reward_funcs=[episode_reward, error_penalty] if settings.error_turn_penalty else episode_reward,
        train_dataset=prompts_of(tasks),
        rollout_func=rollouts,
        callbacks=[_Progress(settings.steps, progress)],
        alpha_sdpo=settings.alpha_sdpo,
        beta_replay=settings.beta_replay,
        settings=composer_settings(settings),
        hinter=TraceHinter(config.hints.max_tokens, config.hints.max_leak_level, sham=settings.sdpo_sham)
        if online
        else None,
        accepts=rollouts.accepts if settings.sdpo_require_acceptance else None,
        batches=batches,
        stateful={"rollouts": rollouts, **({"batches": batches} if batches else {})},
    )
    trainer.remove_callback(PrinterCallback)
    checkpoint = latest(scratch)
    if checkpoint:
        progress.note(f"training goes on from {checkpoint.name}")
    trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    policy.model.eval()
    return [step for entry in trainer.state.log_history if (step := _step_of(entry))]


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


def training_tasks(config: Config) -> list[ToolboxTask]:
    first = FIRST_TRAINING_TASK + config.seed * TASKS_PER_SEED
    needed = config.training.steps * config.training.prompts_per_step
    return list(islice(task_stream(config.toolbox, "train", first), needed))


def prompts_of(tasks: Sequence[ToolboxTask]) -> Any:
    from datasets import Dataset

    return Dataset.from_list([{"prompt": task.messages} for task in tasks])


def grpo_config(config: Config, scratch: Path) -> Any:
    from trl.trainer.grpo_config import GRPOConfig

    settings = config.training
    on_gpu = torch.cuda.is_available()
    return GRPOConfig(
        output_dir=str(scratch),
        seed=config.seed,
        max_steps=settings.steps,
        per_device_train_batch_size=settings.prompts_per_step * settings.group_size,
        num_generations=settings.group_size,
        learning_rate=settings.learning_rate,
        lr_scheduler_type="constant_with_warmup",
        warmup_steps=3,
        adam_beta2=0.99,
        temperature=settings.temperature,
        loss_type="dapo",
        epsilon_high=0.28,
        beta=settings.reference_kl,
        use_cpu=not on_gpu,
        bf16=on_gpu,
        gradient_checkpointing=False,
        logging_steps=1,
        save_strategy="steps" if settings.checkpoint_every else "no",
        save_steps=settings.checkpoint_every or 500,
        save_total_limit=1,
        report_to=[],
        disable_tqdm=True,
    )


class _Progress(TrainerCallback):
    def __init__(self, total: int, progress: Progress) -> None:
        self._total, self._progress = total, progress

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **kwargs: Any) -> None:
        if logs and "reward" in logs:
            self._progress.step(state.global_step, self._total, f"reward {logs['reward']:.2f}")


def _step_of(entry: dict[str, Any]) -> TrainingStep | None:
    if "reward" not in entry:
        return None
    return TrainingStep(
        step=entry["step"],
        reward=float(entry["reward"]),
        policy=float(entry.get("channel/policy", entry["loss"])),
        sdpo=_optional(entry, "channel/sdpo"),
        replay=_optional(entry, "channel/replay"),
        grad_norm=float(entry["grad_norm"]),
        entropy=float(entry["entropy"]),
        flat_groups=float(entry["frac_reward_zero_std"]),
    )


def _optional(entry: dict[str, Any], name: str) -> float | None:
    return float(entry[name]) if name in entry else None
