"""Settings that `recompose train` does not take, and why. `--dry-run` asks here too, so nothing heavy is imported."""

from __future__ import annotations

from composer_replication.config import Config, TrainingConfig
from composer_replication.errors import UsageError

from ..processes import shards_otherwise


def refuse_what_would_do_nothing(config: Config, processes: int = 1) -> None:
    """A control that is silently off would be worse than none."""
    training, defaults = config.training, TrainingConfig()
    only_online = ["sdpo_sham", "sdpo_kinds_off", "sdpo_require_acceptance", "sdpo_sites_per_rollout", "sdpo_ema_rate"]
    unused = only_online if training.sdpo_from == "stored" or not training.rollouts else []
    if not training.rollouts:
        unused = [*unused, "sdpo_from", "dynamic_sampling_rounds", "reference_kl", "error_turn_penalty", "leak_penalty"]
    for key in unused:
        if getattr(training, key) != getattr(defaults, key):
            source = "rollouts = true" if not training.rollouts else 'sdpo_from = "rollouts"'
            raise UsageError(f"training.{key} does nothing without {source}", f"set training.{source}, or take it out")
    if training.leak_penalty != "off" and config.toolbox.leak == "none":
        raise UsageError("training.leak_penalty does nothing without a leak", 'set toolbox.leak = "open"')
    if config.monitor.enabled:
        refuse_what_the_monitor_cannot_do(config, processes)


def refuse_what_processes_cannot_do(config: Config, processes: int, is_sharded: bool) -> None:
    """`is_sharded`: the processes share the weights (FSDP2)."""
    if not config.training.rollouts:
        refuse_stored_traces_in_several(processes)
    if config.training.dynamic_sampling_rounds:
        refuse_torn_groups(config, processes, "training.dynamic_sampling_rounds")
    if is_sharded and config.hardware.lora_rank:
        raise UsageError(
            "adapters of shared weights (FSDP) cannot be merged into a model",
            "launch with distributed_type MULTI_GPU, or take out hardware.lora_rank",
        )
    if is_sharded and config.training.sdpo_require_acceptance:
        raise UsageError(
            "training.sdpo_require_acceptance samples as often as a process has errors, and shared weights (FSDP) "
            "need every process for every pass",
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
