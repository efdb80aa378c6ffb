"""Three channels in one step: fresh toolbox rollouts for the policy gradient, stored traces for the other two.

Reads the starting policy, tokenised rollouts, hints and pairs; returns one `TrainingStep` per optimiser step and leaves
the trained weights in the policy.
"""

from __future__ import annotations

import logging
import random
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from transformers import PrinterCallback, TrainerCallback

from composer_replication.config import Config
from composer_replication.environments.toolbox import ToolboxTask, task_stream
from composer_replication.progress import Progress

from .channels import action_logprobs
from .collator import Batch, ComposerDataCollator
from .examples import PairTokens, TraceExample
from .models import Policy
from .rollouts import roll_out
from .stored import TrainingStep
from .trl_trainer import ComposerReplicationTrainer

# Training tasks start beyond those of any warm-up.
FIRST_TRAINING_TASK = 100_000_000
TASKS_PER_SEED = 1_000_000


def train(
    policy: Policy, config: Config, examples: Sequence[TraceExample], scratch: Path, progress: Progress
) -> list[TrainingStep]:
    logging.getLogger("trl").setLevel(logging.ERROR)
    settings = config.training
    tasks = training_tasks(config)
    collator = ComposerDataCollator(policy.tokenizer.pad_token_id)
    stored = with_reference_logprobs(policy, examples, collator)
    if not stored:
        progress.note("no stored sites or pairs with token ids: channels 2 and 3 have nothing to learn from")
    steps: list[TrainingStep] = []
    trainer = ComposerReplicationTrainer(
        model=policy.model,
        processing_class=policy.tokenizer,
        args=_grpo_config(config, scratch),
        reward_funcs=_episode_reward,
        train_dataset=_prompts(tasks),
        rollout_func=_rollout_function(policy, tasks, config),
        callbacks=[_StepLog(steps, settings.steps, progress)],
        alpha_sdpo=settings.alpha_sdpo,
        beta_replay=settings.beta_replay,
        sdpo_jsd_beta=settings.sdpo_jsd_beta,
        dpo_beta=settings.dpo_beta,
        batches=stored_batches(stored, collator, settings.traces_per_step, config.seed) if stored else None,
    )
    trainer.remove_callback(PrinterCallback)
    trainer.train()
    policy.model.eval()
    shutil.rmtree(scratch, ignore_errors=True)
    return steps


def training_tasks(config: Config) -> list[ToolboxTask]:
    first = FIRST_TRAINING_TASK + config.seed * TASKS_PER_SEED
    needed = config.training.steps * config.training.prompts_per_step
    return list(islice(task_stream(config.toolbox, "train", first), needed))


def stored_batches(
    examples: Sequence[TraceExample], collator: ComposerDataCollator, size: int, seed: int
) -> Iterator[Batch]:
    """Endless batches in shuffled passes, from a random generator of their own."""
    rng = random.Random(f"stored:{seed}")
    while True:
        order = rng.sample(examples, len(examples))
        for start in range(0, len(order), size):
            yield collator(order[start : start + size])


@torch.no_grad()
def with_reference_logprobs(
    policy: Policy, examples: Sequence[TraceExample], collator: ComposerDataCollator
) -> list[TraceExample]:
    """The examples with each pair's log-probabilities under the policy as it is now, before training."""
    return [_with_reference(policy, example, collator) for example in examples]


def _with_reference(policy: Policy, example: TraceExample, collator: ComposerDataCollator) -> TraceExample:
    if not example.pairs:
        return example
    batch = {key: value.to(policy.model.device) for key, value in collator([example]).items()}
    chosen = action_logprobs(policy.model, batch, "chosen").tolist()
    rejected = action_logprobs(policy.model, batch, "rejected").tolist()
    pairs: list[PairTokens] = [
        replace(pair, reference_chosen=good, reference_rejected=bad)
        for pair, good, bad in zip(example.pairs, chosen, rejected, strict=True)
    ]
    return replace(example, pairs=pairs)


def _prompts(tasks: Sequence[ToolboxTask]) -> Any:
    from datasets import Dataset

    return Dataset.from_list([{"prompt": task.messages} for task in tasks])


def _rollout_function(policy: Policy, tasks: Sequence[ToolboxTask], config: Config) -> Any:
    by_prompt = {_prompt_key(task.messages): task for task in tasks}
    generator = torch.Generator(device=policy.model.device).manual_seed(config.seed)

    def rollout(prompts: list[Any], trainer: Any) -> dict[str, list[Any]]:
        model = trainer.accelerator.unwrap_model(trainer.model)
        model.eval()
        rollouts = roll_out(
            model,
            policy.tokens,
            [by_prompt[_prompt_key(prompt)] for prompt in prompts],
            max_turn_tokens=config.training.max_turn_tokens,
            temperature=config.training.temperature,
            generator=generator,
        )
        model.train()
        return {
            "prompt_ids": [rollout.prompt_ids for rollout in rollouts],
            "completion_ids": [rollout.completion_ids for rollout in rollouts],
            "logprobs": [rollout.logprobs for rollout in rollouts],
            "env_mask": [rollout.sampled_mask for rollout in rollouts],
            "episode_reward": [rollout.episode.reward for rollout in rollouts],
        }

    return rollout


def _prompt_key(messages: Sequence[Any]) -> tuple[str, ...]:
    return tuple(message["content"] for message in messages)


def _episode_reward(episode_reward: list[float], **columns: Any) -> list[float]:
    return episode_reward


def _grpo_config(config: Config, scratch: Path) -> Any:
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
        beta=0.0,
        use_cpu=not on_gpu,
        bf16=on_gpu,
        gradient_checkpointing=False,
        logging_steps=1,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
    )


class _StepLog(TrainerCallback):
    def __init__(self, steps: list[TrainingStep], total: int, progress: Progress) -> None:
        self.steps, self.total, self.progress = steps, total, progress

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **kwargs: Any) -> None:
        if not logs or "reward" not in logs:
            return
        step = TrainingStep(
            step=state.global_step,
            reward=float(logs["reward"]),
            policy=float(logs.get("channel/policy", logs["loss"])),
            sdpo=_optional(logs, "channel/sdpo"),
            replay=_optional(logs, "channel/replay"),
            grad_norm=float(logs["grad_norm"]),
            entropy=float(logs["entropy"]),
            flat_groups=float(logs["frac_reward_zero_std"]),
        )
        self.steps.append(step)
        self.progress.step(step.step, self.total, f"reward {step.reward:.2f}")


def _optional(logs: dict[str, Any], name: str) -> float | None:
    return float(logs[name]) if name in logs else None
