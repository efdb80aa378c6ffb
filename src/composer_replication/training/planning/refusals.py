"""Settings that `recompose train` does not take, and why. `--dry-run` asks here too, so nothing heavy is imported."""

from __future__ import annotations

from composer_replication.config import Config, TrainingConfig
from composer_replication.errors import UsageError
from composer_replication.objective import GrpoSettings, SdpoSettings

from ..processes import shards_otherwise

OF_ROLLOUTS = (
    "prompts_per_step", "group_size", "gradient_ratio_cap", "dynamic_sampling_rounds", "reference_kl",
    "error_turn_penalty", "leak_penalty", "token_weights",
)  # fmt: skip


def refuse_what_would_do_nothing(config: Config, processes: int = 1) -> None:
    """A control that is silently off would be worse than none."""
    training = config.training
    if training.rollouts:
        _refuse_no_policy_gradient(config)
        _refuse_idle_sdpo(config, 'source = "rollouts"')
    else:
        _refuse_idle_sdpo(config, "training.rollouts = true")
        _refuse_idle_rollouts(config)
    if training.leak_penalty != "off" and config.toolbox.leak == "none":
        raise UsageError("training.leak_penalty does nothing without a leak", 'set toolbox.leak = "open"')
    if config.monitor.enabled:
        refuse_what_the_monitor_cannot_do(config, processes)


def _refuse_idle_rollouts(config: Config) -> None:
    for key in OF_ROLLOUTS:
        if getattr(config.training, key) not in (getattr(TrainingConfig(), key), None):
            raise UsageError(
                f"training.{key} does nothing without rollouts = true", "set training.rollouts, or take it out"
            )
    if config.hardware.rollouts_per_device is not None:
        raise UsageError(
            "hardware.rollouts_per_device does nothing without rollouts = true",
            "set training.traces_per_step, or take it out",
        )


def _refuse_no_policy_gradient(config: Config) -> None:
    if not config.channel(GrpoSettings).weight:
        raise UsageError(
            "training with rollouts needs the channel grpo with a weight",
            'add name = "grpo" to [[channels]], or set training.rollouts = false',
        )


def _refuse_idle_sdpo(config: Config, source: str) -> None:
    """Settings of channel 2 that only error turns of fresh rollouts have a use for."""
    sdpo, defaults = config.channel(SdpoSettings), SdpoSettings()
    if config.training.rollouts and sdpo.source == "rollouts":
        return
    only_online = ["sham", "kinds_off", "require_acceptance", "sites_per_rollout", "ema_rate"]
    if sdpo.teacher == "frozen":
        raise UsageError(
            "the teacher of the channel sdpo is the policy itself on stored traces", 'set teacher = "live" there'
        )
    for key in only_online if config.training.rollouts else ["source", *only_online]:
        if getattr(sdpo, key) != getattr(defaults, key):
            raise UsageError(
                f"{key} of the channel sdpo does nothing without {source}", f"set {source}, or take it out"
            )


def refuse_what_processes_cannot_do(config: Config, processes: int, is_sharded: bool) -> None:
    """`is_sharded`: the processes share the weights (FSDP2)."""
    if not config.training.rollouts:
        refuse_stored_traces_in_several(processes)
    if processes > 1 and config.training.token_weights:
        raise UsageError("training.token_weights is for one process", "take it out, or train in one process")
    if config.environment.curriculum and processes > 1:
        raise UsageError(
            "environment.curriculum is kept by one process", "start it without accelerate launch, or take it out"
        )
    if config.training.dynamic_sampling_rounds:
        refuse_torn_groups(config, processes, "training.dynamic_sampling_rounds")
    if is_sharded and config.channel(SdpoSettings).require_acceptance:
        raise UsageError(
            "require_acceptance of the channel sdpo samples as often as a process has errors, and shared weights "
            "(FSDP) need every process for every pass",
            "launch with distributed_type MULTI_GPU, or take it out",
        )


def refuse_other_shards() -> None:
    """Sampling and saving know the shards of FSDP2 only; through others, processes would wait for each other."""
    if shards_otherwise():
        raise UsageError(
            "of the ways to share weights over processes only FSDP2 works here",
            "set fsdp_version: 2 in the file of accelerate launch --config_file",
        )


def refuse_vllm(config: Config) -> None:
    if config.hardware.vllm != "off":
        raise UsageError(
            "hardware.vllm: the toolbox samples by itself",
            "take it out, or use the trainer class with your environment",
        )


def refuse_what_the_monitor_cannot_do(config: Config, processes: int) -> None:
    training, mode = config.training, config.monitor.mode
    if not training.rollouts:
        raise UsageError("monitor.enabled does nothing without rollouts", "set training.rollouts = true")
    if training.leak_penalty != "off" and mode != "watch":
        raise UsageError("the monitor and training.leak_penalty would both charge for the leak", "choose one of them")
    if mode == "drop":
        refuse_torn_groups(config, processes, 'monitor.mode = "drop"')


def refuse_torn_groups(config: Config, processes: int, setting: str) -> None:
    prompts = config.training.prompts_per_step
    if prompts % processes:
        raise UsageError(
            f"groups of {prompts} prompts would be torn apart by {processes} processes, and {setting} needs them whole",
            "change training.prompts_per_step or the number of processes",
        )


def refuse_stored_traces_in_several(processes: int) -> None:
    """A process whose batch holds nothing for a channel would not join the others' synchronisation."""
    if processes > 1:
        raise UsageError(
            "training without rollouts runs in one process",
            "start it without accelerate launch, plan it without --processes",
        )
