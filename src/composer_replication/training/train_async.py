"""`--backend trl_async`: the policy trains on what a server's rollouts leave in a queue, while the next are played."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from transformers import PrinterCallback, TrainerCallback

from composer_replication.config import Config
from composer_replication.environments.protocol import Environment, EpisodeLimits
from composer_replication.errors import RecomposeError
from composer_replication.objective import GrpoSettings, SdpoSettings
from composer_replication.progress import Progress

from . import processes
from .backends.trl.arguments import common_arguments
from .backends.trl.rollouts import prompts_of
from .backends.trl_async.trainer import AsyncComposerTrainer
from .backends.trl_async.worker import EpisodeQueue
from .channels import open_channels
from .lessons.hinters import hinter_of
from .lessons.online_sites import find_online_sites
from .models.loading import Policy
from .planning.refusals import refuse_for_backend, refuse_what_would_do_nothing, tell_missing_vllm
from .rollouts.playing import rollout_settings
from .rollouts.server_sampling import ServerSampler
from .rollouts.weight_folder import FolderTransfer, WeightFolder
from .rollouts.wire import gives_up_after_s
from .rollouts.worker import RolloutWorker
from .running import prepared, steps_of, telling_of, training_tasks, use_optimizer
from .stored.batches import StoredBatches
from .stored.examples import TraceExample
from .stored.records import TrainingStep

START = "start"


def train(
    policy: Policy,
    config: Config,
    environment: Environment,
    examples: Sequence[TraceExample],
    folder: Path,
    progress: Progress,
    callbacks: Sequence[TrainerCallback] = (),
) -> list[TrainingStep]:
    """TRL loads the model itself, from a copy of the policy that is written for it."""
    logging.getLogger("trl").setLevel(logging.ERROR)
    refuse_what_would_do_nothing(config, processes.number())
    refuse_for_backend(config, "trl_async", processes.number())
    tell_missing_vllm(config)
    scratch, steps = folder / "scratch", config.training.steps
    policy.save(scratch / START)
    collator, stored, watchdog, watchers = prepared(
        policy,
        config,
        examples,
        folder,
        progress,
        callbacks,
        empty_hint_divergence=lambda: trainer.empty_hint_divergence,
    )
    batches = StoredBatches(stored, collator, config.training.traces_per_step, config.seed) if stored else None
    transfer = None
    if config.sampling.weight_transfer == "disk":
        served = WeightFolder(config.sampling, Path(config.sampling.folder or folder / "served"))
        transfer = FolderTransfer(served, policy.model.config)
    sdpo = config.channel(SdpoSettings)
    is_online = sdpo.source == "rollouts"
    tasks = training_tasks(environment, config)
    played = episode_queue(policy, config, environment)
    trainer = AsyncComposerTrainer(
        model=str(scratch / START),
        args=async_config(config, scratch, environment.limits),
        train_dataset=prompts_of(tasks),
        processing_class=policy.tokenizer,
        callbacks=watchers,
        rollout_worker=played,
        weight_transfer=transfer,
        sdpo=sdpo if is_online else None,
        grpo=config.channel(GrpoSettings),
        channels=[one for one in open_channels(config) if not (is_online and one.name == "sdpo")],
        batches=batches,
        gradient_ratio_cap=config.training.gradient_ratio_cap,
    )
    trainer.remove_callback(PrinterCallback)
    use_optimizer(trainer, config.training.optimizer)
    with telling_of(progress, steps, lambda: trainer.state.global_step, played.phase):
        trainer.train()
    watchdog.raise_if_stopped()
    policy.model = trainer.accelerator.unwrap_model(trainer.model)
    policy.model.set_attn_implementation("sdpa")
    policy.model.eval()
    made = steps_of(trainer.state.log_history)
    if len(made) < steps:
        raise RecomposeError(f"training ended after {len(made)} of {steps} steps", "look at RUN/training/metrics.jsonl")
    return made


def async_config(config: Config, scratch: Path, limits: EpisodeLimits) -> Any:
    from trl.experimental.async_grpo.async_grpo_config import AsyncGRPOConfig

    assert config.sampling.server is not None
    settings, grpo, hardware = config.training, config.channel(GrpoSettings), config.hardware
    rollouts = settings.prompts_per_step * settings.group_size
    return AsyncGRPOConfig(
        **common_arguments(config, scratch),
        **hardware.grpo_arguments(rollouts, 1, torch.cuda.is_available()),
        dtype=hardware.weights,
        num_generations=settings.group_size,
        temperature=settings.temperature,
        epsilon=grpo.clip_low,
        epsilon_high=grpo.clip_high,
        # As many rollouts in a micro-step as in the synchronous trainer, whatever their length.
        token_budget=0,
        max_staleness=config.sampling.max_staleness,
        # A server or a step that takes too long is given up there, and said so: a turn, then a step and its reward.
        heartbeat_stale_after_s=gives_up_after_s(config.sampling) + 2 * (limits.step_timeout_s or 0),
        vllm_server_base_url=config.sampling.server,
    )


def episode_queue(policy: Policy, config: Config, environment: Environment) -> EpisodeQueue:
    """As many groups under way as a step takes, and one more, so that the server has work while a step is made."""
    settings, sdpo, limits = config.training, config.channel(SdpoSettings), environment.limits
    sampler = ServerSampler(
        config.sampling, policy.tokens.end_of_turn_id, int(policy.model.config.max_position_embeddings)
    )
    find_sites = None
    if sdpo.weight and sdpo.source == "rollouts":
        find_sites = partial(
            find_online_sites,
            hinter=hinter_of(config.hints, sdpo),
            tokens=policy.tokens,
            settings=sdpo,
            max_teacher_tokens=settings.max_tokens,
        )
    return EpisodeQueue(
        RolloutWorker(sampler, policy.tokens, rollout_settings(limits, settings.max_turn_tokens, settings.temperature)),
        sampler,
        environment,
        training_tasks(environment, config),
        group_size=settings.group_size,
        groups_in_flight=settings.prompts_per_step + 1,
        seed=config.seed,
        error_turn_penalty=settings.error_turn_penalty,
        find_sites=find_sites,
        source_model=policy.name,
    )
