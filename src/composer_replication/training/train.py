"""All channels in one step: fresh rollouts for the policy gradient, stored traces for what is added to it.

Reads the starting policy, tokenised rollouts, hints and pairs; returns one `TrainingStep` per optimiser step and leaves
the trained weights in the policy.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from accelerate import PartialState
from transformers import AutoModelForCausalLM, PrinterCallback, TrainerCallback

from composer_replication.config import Config
from composer_replication.environments.protocol import TRAIN, Environment
from composer_replication.errors import UsageError, quoted
from composer_replication.objective import GrpoSettings, SdpoSettings
from composer_replication.progress import Progress

from . import processes
from .backends.trl.arguments import grpo_config, offline_arguments
from .backends.trl.checkpoints import latest, made_by, steps_held
from .backends.trl.offline import OfflineComposerTrainer
from .backends.trl.rollouts import REWARD_COLUMNS, EnvironmentRollouts, only_read, prompts_of
from .backends.trl.samplers import sampler_opener
from .backends.trl.trainer import ComposerReplicationTrainer
from .channels import open_channels
from .lessons.hinters import hinter_of
from .lessons.token_weights import TokenWeightsFolder
from .metrics import ReadFile, StepLines
from .models.loading import Policy
from .models.states import language_model
from .models.whole import is_sharded, save_adapters
from .planning.refusals import (
    refuse_for_backend,
    refuse_other_shards,
    refuse_what_processes_cannot_do,
    refuse_what_would_do_nothing,
    tell_missing_vllm,
)
from .processes import all_or_none
from .rollouts.curriculum import Curriculum, entries_of
from .rollouts.monitoring import RolloutMonitor
from .rollouts.samples import RolloutSamples
from .running import prepared, steps_of, telling_of, training_tasks, use_optimizer
from .stored.batches import StoredBatches
from .stored.collator import ComposerDataCollator
from .stored.examples import TraceExample
from .stored.policy_gradient import StoredPolicy, why_no_advantage
from .stored.records import TrainingStep


def train(
    policy: Policy,
    config: Config,
    environment: Environment,
    examples: Sequence[TraceExample],
    folder: Path,
    progress: Progress,
    callbacks: Sequence[TrainerCallback] = (),
    trainer: Callable[..., Any] = ComposerReplicationTrainer,
) -> list[TrainingStep]:
    """Goes on from the last checkpoint in `folder`, if there is one; what it ends with is the same to the last bit.

    `trainer` is what steps with rollouts are made by: it is called with the arguments of the one that stands there.
    """
    logging.getLogger("trl").setLevel(logging.ERROR)
    scratch = folder / "scratch"
    with all_or_none():
        refuse_other_shards()
        refuse_what_would_do_nothing(config, processes.number())
        refuse_what_processes_cannot_do(config, processes.number(), processes.is_sharded())
        refuse_for_backend(config, "trl", processes.number())
        tell_missing_vllm(config)
        arguments = (grpo_config if config.training.rollouts else offline_arguments)(config, scratch)
        checkpoint = last_checkpoint(scratch)
    collator, stored, watchdog, watchers = prepared(
        policy,
        config,
        examples,
        folder,
        progress,
        callbacks,
        empty_hint_divergence=lambda: float(getattr(made, "empty_hint_divergence", 0.0)),
    )
    compares = not config.training.rollouts and config.channel(GrpoSettings).weight > 0
    if compares and (why := why_no_advantage(stored)):
        progress.note(why)
    settings = (policy, config, environment, stored, collator, arguments, watchers)
    made = _online_trainer(*settings, trainer) if config.training.rollouts else _offline_trainer(*settings)
    if isinstance(made, OfflineComposerTrainer) and not made.reread.turns:
        progress.note("there is no turn that nothing teaches, to be read again: only `evaluate` tells of harm")
    made.remove_callback(PrinterCallback)
    use_optimizer(made, config.training.optimizer)
    if checkpoint:
        progress.note(f"training goes on from {checkpoint.name}")
    rollouts, held = getattr(made, "rollout_func", None), partial(steps_held, scratch)
    phase = rollouts.phase if rollouts else lambda: "learning"
    with telling_of(progress, config.training.steps, lambda: made.state.global_step, phase, held):
        made.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    with all_or_none():
        watchdog.raise_if_stopped()
    if config.hardware.lora_rank:
        adapted = made.accelerator.unwrap_model(made.model)
        save_adapters(adapted, config.model.name, folder / "adapters")
        # Shards cannot be merged in place; whoever gathers them merges.
        policy.model = language_model(adapted) if is_sharded(adapted) else adapted.merge_and_unload()
    policy.model.eval()
    return steps_of(made.state.log_history)


def end_at(checkpoint: Path, policy: Policy, folder: Path) -> list[TrainingStep]:
    """What `train` returns and leaves behind, as of a checkpoint and without a step; adapters are merged."""
    start = policy.model
    try:
        history = json.loads((checkpoint / "trainer_state.json").read_text(encoding="utf-8"))["log_history"]
        if (checkpoint / "adapter_config.json").exists():
            from peft import PeftModel  # pyright: ignore[reportMissingImports]

            policy.model = PeftModel.from_pretrained(start, checkpoint).merge_and_unload()
        else:
            found = AutoModelForCausalLM.from_pretrained(checkpoint, dtype=start.dtype, use_safetensors=True)
            policy.model = found.to(start.device).eval()
    except OSError as error:
        raise UsageError(f"{checkpoint} holds no whole weights", "recompose train RUN goes on from it") from error
    lines = StepLines(folder / "metrics.jsonl")
    lines.begin(0)
    for entry in history:
        lines.append(entry)
    return steps_of(history)


def _online_trainer(
    policy: Policy,
    config: Config,
    environment: Environment,
    stored: Sequence[TraceExample],
    collator: ComposerDataCollator,
    arguments: Any,
    callbacks: Sequence[TrainerCallback],
    trainer: Callable[..., Any],
) -> Any:
    settings, sdpo, state = config.training, config.channel(SdpoSettings), PartialState()
    tasks = training_tasks(environment, config)
    rank, number = state.process_index, state.num_processes
    batches = StoredBatches(stored, collator, settings.traces_per_step, config.seed, rank, number) if stored else None
    folder = Path(arguments.output_dir).parent
    monitor = None
    if config.monitor.enabled:
        monitor = RolloutMonitor(
            folder,
            config.monitor,
            group_size=settings.group_size,
            rank=rank,
            signs=environment.signs,
            reward_columns=REWARD_COLUMNS,
        )
    curriculum = task_curriculum(environment, config) if config.environment.curriculum else None
    rollouts = EnvironmentRollouts(
        policy,
        environment,
        list(environment.tasks(TRAIN, "training")) if curriculum else tasks,
        only_read(settings),
        seed=config.seed,
        rank=rank,
        watcher=monitor,
        curriculum=curriculum,
        open_sampler=sampler_opener(config, policy, folder),
    )
    samples = RolloutSamples(folder / "samples")
    weighs = settings.token_weights is not False and number == 1
    weights_folder = TokenWeightsFolder(folder / "token_weights", lambda token: policy.tokenizer.decode([token]))
    reads = [ReadFile(folder / "read.jsonl", batches)] if batches else []
    hinter = hinter_of(config.hints, sdpo) if sdpo.source == "rollouts" else None
    has_sites = hinter or (batches and batches.holds_sites)
    return trainer(
        model=policy.model,
        processing_class=policy.tokenizer,
        args=arguments,
        reward_funcs=[*rollouts.reward_functions(), *([monitor.monitor_penalty] if monitor else [])],
        train_dataset=prompts_of(tasks),
        rollout_func=rollouts,
        samples=samples,
        token_weights=weights_folder if weighs else None,
        callbacks=[*callbacks, samples, *([monitor] if monitor else []), *reads],
        alpha_sdpo=0.0,
        beta_replay=0.0,
        channels=[one for one in open_channels(config) if (has_sites if one.name == "sdpo" else batches)],
        grpo=config.channel(GrpoSettings),
        hinter=hinter,
        accepts=rollouts.accepts if sdpo.require_acceptance else None,
        batches=batches,
        gradient_ratio_cap=settings.gradient_ratio_cap,
        gradient_ratio_target=settings.gradient_ratio_target,
        dynamic_sampling_rounds=settings.dynamic_sampling_rounds,
        max_teacher_tokens=settings.max_tokens,
        samples_elsewhere=config.sampling.server is not None and not arguments.use_vllm,
        peft_config=config.hardware.lora_config(),
        stateful={
            "rollouts": rollouts,
            **({"batches": batches} if batches else {}),
            **({"curriculum": curriculum} if curriculum else {}),
        },
    )


def _offline_trainer(
    policy: Policy,
    config: Config,
    environment: Environment,
    stored: Sequence[TraceExample],
    collator: ComposerDataCollator,
    arguments: Any,
    callbacks: Sequence[TrainerCallback],
) -> OfflineComposerTrainer:
    if not stored:
        raise UsageError("no stored trace can be trained on", "recompose train RUN --dry-run says why")
    policy_gradient = StoredPolicy(config.channel(GrpoSettings), config.training.temperature)
    return OfflineComposerTrainer(
        model=with_adapters(policy.model, config.hardware.lora_config()),
        args=arguments,
        data_collator=collator,
        train_dataset=stored,
        callbacks=list(callbacks),
        channels=[policy_gradient, *open_channels(config)],
    )


def last_checkpoint(scratch: Path) -> Path | None:
    """To go on from, with as many processes as made it."""
    checkpoint = latest(scratch)
    if checkpoint and made_by(checkpoint) != processes.number():
        raise UsageError(
            f"{checkpoint} was made by {made_by(checkpoint)} processes, and these are {processes.number()}",
            f"use as many, or delete {quoted(scratch)} to start from step 0",
        )
    return checkpoint


def with_adapters(model: Any, lora: Any | None) -> Any:
    if lora is None:
        return model
    from peft import get_peft_model  # pyright: ignore[reportMissingImports]

    return get_peft_model(model, lora)


def task_curriculum(environment: Environment, config: Config) -> Curriculum:
    tasks = environment.tasks(TRAIN, "training")
    if not isinstance(tasks, Sequence):
        raise UsageError(f"{environment.name} makes tasks without end", "take out environment.curriculum")
    return Curriculum.laddered(entries_of(tasks), config.seed)
