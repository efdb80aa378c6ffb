"""Settings that `recompose train` does not take, and why. `--dry-run` asks here too, so nothing heavy is imported."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from importlib.util import find_spec

from composer_replication.config import Config, SamplingConfig, TrainingConfig
from composer_replication.environments.protocol import EpisodeLimits
from composer_replication.errors import UsageError
from composer_replication.objective import GrpoSettings, OwnSettings, SdpoSettings, TrdpoSettings
from composer_replication.sections import Section

from ..processes import shards_otherwise

ONLY_ONLINE = (
    "sham", "kinds_off", "require_acceptance", "sites_per_rollout", "importance_clip", "sibling_hints", "hint",
)  # fmt: skip
"""Settings of channel 2 that ask for rollouts as they are made."""
NO_OTHER_TASK = 'sham of the channel sdpo finds no other task whose feedback it could tell, with hint = "feedback"'
OF_ROLLOUTS = (
    "prompts_per_step", "group_size", "gradient_ratio_cap", "gradient_ratio_target", "dynamic_sampling_rounds",
    "reference_kl", "error_turn_penalty", "leak_penalty", "token_weights",
)  # fmt: skip


def refuse_what_would_do_nothing(config: Config, processes: int = 1) -> None:
    """A control that is silently off would be worse than none."""
    training = config.training
    if training.rollouts:
        _refuse_no_policy_gradient(config)
        _refuse_idle_sdpo(config, 'source = "rollouts"', processes)
    else:
        _refuse_idle_sdpo(config, "training.rollouts = true", processes)
        _refuse_idle_rollouts(config)
    if training.leak_penalty != "off" and config.toolbox.leak == "none":
        raise UsageError("training.leak_penalty does nothing without a leak", 'set toolbox.leak = "open"')
    _refuse_idle_sampling(config)
    if config.monitor.enabled:
        refuse_what_the_monitor_cannot_do(config, processes)


def refuse_long_episodes(limits: EpisodeLimits, turn_tokens: int, prompt: int, most: int | None, model: str) -> None:
    """`prompt` is that of the longest task, `most` what the model takes; None where that is not known here."""
    room = limits.completion_tokens
    if room is None:
        return
    if turn_tokens > room:
        raise UsageError(
            f"one turn of training.max_turn_tokens = {turn_tokens} does not fit environment.completion_tokens = {room}",
            "lower the one or raise the other",
        )
    if most is not None and prompt + room > most:
        raise UsageError(
            f"a task of {prompt} tokens and {room} more do not fit the {most} of {model}",
            f"set environment.completion_tokens = {max(0, most - prompt)} or less, or choose shorter tasks",
        )


def _refuse_idle_rollouts(config: Config) -> None:
    for key in OF_ROLLOUTS:
        asked = getattr(config.training, key)
        if asked is not False and asked not in (getattr(TrainingConfig(), key), None):
            raise UsageError(
                f"training.{key} does nothing without rollouts = true", "set training.rollouts, or take it out"
            )
    if config.channel(GrpoSettings).advantage != "group":
        raise UsageError("advantage of the channel grpo does nothing without rollouts = true", "take it out")
    if config.hardware.rollouts_per_device is not None:
        raise UsageError(
            "hardware.rollouts_per_device does nothing without rollouts = true",
            "set training.traces_per_step, or take it out",
        )


def _refuse_no_policy_gradient(config: Config) -> None:
    sdpo = config.channel(SdpoSettings)
    if not config.channel(GrpoSettings).weight and not (sdpo.weight and sdpo.source == "rollouts"):
        raise UsageError(
            "training with rollouts needs the channel grpo with a weight, or sdpo on rollouts",
            'add name = "grpo" to [[channels]], or set training.rollouts = false',
        )


def _refuse_idle_sdpo(config: Config, source: str, processes: int) -> None:
    """Settings of channel 2 that only error turns of fresh rollouts have a use for."""
    sdpo = config.channel(SdpoSettings)
    _refuse_idle_teacher(sdpo)
    if config.training.rollouts and sdpo.source == "rollouts":
        if sdpo.hint == "feedback" and sdpo.sibling_hints != "off":
            raise UsageError(
                'sibling_hints of the channel sdpo does nothing with hint = "feedback"', "take one of them out"
            )
        if _tells_of_another_task(sdpo) and config.training.prompts_per_step < 2 * processes:
            raise UsageError(NO_OTHER_TASK, "set training.prompts_per_step, 2 or more for each process")
        if sdpo.sibling_hints == "call" and config.hints.max_leak_level != "L2":
            raise UsageError(
                'sibling_hints = "call" of the channel sdpo shows the answer, which hints.max_leak_level leaves out',
                'set hints.max_leak_level = "L2", or sibling_hints = "outcome"',
            )
        return
    for key in _changed(sdpo, ONLY_ONLINE if config.training.rollouts else ("source", *ONLY_ONLINE)):
        raise UsageError(f"{key} of the channel sdpo does nothing without {source}", f"set {source}, or take it out")


def _changed(settings: Section, keys: Iterable[str]) -> Collection[str]:
    """Those of the keys that do not stand at their defaults."""
    return settings.model_dump(include=set(keys), exclude_defaults=True)


def _tells_of_another_task(sdpo: SdpoSettings) -> bool:
    return sdpo.hint == "feedback" and sdpo.sham


def _refuse_idle_teacher(sdpo: SdpoSettings) -> None:
    for key, teacher in (("ema_rate", "ema"), ("trust_region_rate", "trust_region")):
        if sdpo.teacher != teacher and _changed(sdpo, [key]):
            raise UsageError(
                f'{key} of the channel sdpo does nothing without teacher = "{teacher}"', "set it, or take this out"
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


def refuse_uneven_replicas(processes: int, is_sharded: bool, replicas: int) -> None:
    if replicas != 1 and (not is_sharded or replicas < 1 or processes % replicas or processes == replicas):
        raise UsageError(
            f"{replicas} replicas of weights that {processes} processes share need FSDP, and several processes each",
            "give --fsdp and as many --processes as a multiple of --replicas",
        )


def refuse_other_shards() -> None:
    """Sampling and saving know the shards of FSDP2 only; through others, processes would wait for each other."""
    if shards_otherwise():
        raise UsageError(
            "of the ways to share weights over processes only FSDP2 works here",
            "set fsdp_version: 2 in the file of accelerate launch --config_file",
        )


def refuse_for_backend(config: Config, backend: str, processes: int) -> None:
    """What only one of the backends does is refused by the others."""
    grpo, sdpo = config.channel(GrpoSettings), config.channel(SdpoSettings)
    if backend != "trl" and config.training.rollouts and not grpo.weight:
        _refuse_backend("the channel grpo without a weight", backend, "trl")
    untaken = {
        section: set(type(getattr(config, section)).model_fields) - taken
        for section, taken in TAKEN.get(backend, {}).items()
    }
    for section, keys in {**IDLE[backend], **untaken}.items():
        channel = {"grpo": grpo, "sdpo": sdpo}.get(section)
        for key in _changed(channel or getattr(config, section), keys):
            if key == "token_weights" and not config.training.token_weights:
                continue  # to write none is what the backend does
            setting = f"{key} of the channel {section}" if channel else f"{section}.{key}"
            _refuse_backend(setting, backend, "trl_async" if key in ONLY_ASYNC.get(section, ()) else "trl")
    if backend in TAKEN:
        if sdpo.jsd_beta not in (1, SdpoSettings().jsd_beta):
            _refuse_backend("jsd_beta of the channel sdpo", backend, "trl")
        if own := next((entry for entry in config.channels if isinstance(entry, OwnSettings)), None):
            raise UsageError(f"{own.label} reads the model, which --backend {backend} keeps", "use --backend trl")
    if backend != "trl":
        {"tinker": _refuse_for_tinker, "verl": _refuse_for_verl, "trl_async": _refuse_for_async}[backend](
            config, processes
        )


def _refuse_for_async(config: Config, processes: int) -> None:
    if config.sampling.server is None:
        raise UsageError("--backend trl_async plays on a server while it trains", 'set [sampling] server = "http://…"')
    if processes > 1:
        raise UsageError("--backend trl_async runs in one process here", "start it without accelerate launch")
    if _tells_of_another_task(config.channel(SdpoSettings)):
        raise UsageError(NO_OTHER_TASK, "use --backend trl: trl_async looks at one task at a time")
    if config.hardware.lora_rank:
        raise UsageError("adapters were not tried with --backend trl_async", "use --backend trl, or take lora_rank out")


def refuse_for_diloco(config: Config, backend: str, processes: int) -> None:
    training, window = config.training, config.diloco.sync_every
    if find_spec("torchft") is None:
        raise UsageError("--diloco needs torchft", "pip install 'composer-replication[diloco]', on Linux")
    if backend != "trl":
        _refuse_backend("--diloco", backend, "trl")
    if processes > 1:
        raise UsageError("a replica of --diloco is one process here", "start it without accelerate launch")
    if not training.rollouts:
        raise UsageError("--diloco was not tried without rollouts", "set training.rollouts = true")
    for key in ("steps", "checkpoint_every"):
        if getattr(training, key) % window:
            # In the middle of a window the replicas hold weights of their own.
            raise UsageError(
                f"training.{key} must be a multiple of diloco.sync_every = {window}", f"change training.{key}"
            )
    if training.optimizer != "adamw":
        raise UsageError(f"--diloco was not tried with {training.optimizer}", 'set training.optimizer = "adamw"')
    if config.hardware.weights == "bfloat16" and not config.hardware.lora_rank:
        raise UsageError(
            "bfloat16 rounds away what a window moves the weights by", 'set hardware.weights = "float32", or lora_rank'
        )


OF_ENGINES = {
    "training": {
        "steps", "prompts_per_step", "group_size", "learning_rate", "rate_warmup_steps", "max_turn_tokens",
        "max_tokens", "traces_per_step", "checkpoint_every", "error_turn_penalty", "leak_penalty",
        "leak_penalty_weight", "leak_ways_known",
    },
    "sampling": set[str](),
    "monitor": {"alarm_rate", "mode"},
}  # fmt: skip
TAKEN = {
    "tinker": {**OF_ENGINES, "hardware": {"lora_rank", "rollouts_at_once", "weights"}},
    "verl": {
        **OF_ENGINES,
        "training": OF_ENGINES["training"] | {"temperature", "reference_kl"},
        "hardware": {"rollouts_per_device", "rollouts_at_once", "weights", "autocast", "gradient_checkpointing"},
    },
}
"""Settings that an engine takes; all others of these sections must stand as they are."""
OF_DISTRIBUTIONS = {"temperature", "top_k", "token_clip", "importance_clip", "require_acceptance"}
"""Of channel 2: what needs whole distributions, or a policy in this process. `jsd_beta` is another, which may be 1."""
ONLY_ASYNC = {"grpo": {"importance_clip"}, "sampling": {"max_staleness"}}
IDLE = {
    "trl": ONLY_ASYNC,
    "trl_async": {
        "grpo": {"advantage"},
        "sdpo": {"require_acceptance"},
        "training": {
            "rollouts", "gradient_ratio_target", "dynamic_sampling_rounds", "reference_kl", "checkpoint_every",
            "token_weights",
        },
        "monitor": {"enabled"},
        "environment": {"curriculum"},
    },
    "tinker": {
        "grpo": {"importance_clip", "advantage"},
        "sdpo": OF_DISTRIBUTIONS,
        "environment": {"curriculum"},
    },
    "verl": {
        "grpo": {"importance_clip", "advantage", "weight", "schedule"},
        "sdpo": OF_DISTRIBUTIONS | {"sibling_hints", "hint"},
        "environment": {"curriculum"},
    },
}  # fmt: skip
"""Settings that a backend does not read, of the sections of which it reads the others."""


def _refuse_for_tinker(config: Config, processes: int) -> None:
    if processes > 1:
        raise UsageError(
            "--backend tinker runs in one process: the server spreads the work", "start it without a launcher"
        )
    if config.hardware.lora_rank is None:
        raise UsageError("a Tinker server trains adapters", "set hardware.lora_rank, such as 16")
    sdpo = config.channel(SdpoSettings)
    if sdpo.weight and sdpo.teacher not in ("live", "frozen"):
        raise UsageError(
            f'a Tinker server keeps no teacher "{sdpo.teacher}"', 'set teacher = "frozen" or "live" of the channel sdpo'
        )


def _refuse_for_verl(config: Config, processes: int) -> None:
    if processes > 1:
        raise UsageError("verl starts its own processes", "start it without a launcher")
    sdpo = config.channel(SdpoSettings)
    if sdpo.weight and sdpo.teacher != "live":
        raise UsageError("verl keeps no second policy that sees the hint", 'set teacher = "live" of the channel sdpo')
    if config.training.temperature != 1 and (sdpo.weight or config.channel(TrdpoSettings).weight):
        raise UsageError(
            "verl scores stored rows at the rollouts' temperature", "set training.temperature = 1, or the weights to 0"
        )


def _refuse_backend(setting: str, backend: str, other: str) -> None:
    raise UsageError(f"{setting} does nothing with --backend {backend}", f"take it out, or use --backend {other}")


def tell_missing_vllm(config: Config) -> None:
    """TRL's client for vLLM needs vLLM in the training process too, for its half of the weights' way."""
    asks_vllm = "server" if config.sampling.grpo_arguments() else "colocate" if config.hardware.vllm != "off" else None
    if asks_vllm and find_spec("vllm") is None:
        setting = 'sampling.weight_transfer = "nccl"' if asks_vllm == "server" else "hardware.vllm"
        raise UsageError(f"{setting} needs vllm here, and it is not installed", "pip install 'trl[vllm]'")


def _refuse_idle_sampling(config: Config) -> None:
    sampling = config.sampling
    if sampling.server and config.hardware.vllm != "off":
        raise UsageError("sampling.server and hardware.vllm both sample", "take one of them out")
    if config.hardware.vllm == "off" and _changed(config.hardware, ["vllm_memory_share"]):
        raise UsageError(
            'hardware.vllm_memory_share does nothing without hardware.vllm = "colocate"', "set it, or take this out"
        )
    if sampling.server and not config.training.rollouts:
        raise UsageError("sampling.server does nothing without rollouts = true", "set training.rollouts")
    for key in _changed(sampling, SamplingConfig.model_fields) if sampling.server is None else ():
        raise UsageError(f"sampling.{key} does nothing without sampling.server", "set it, or take this out")
    if sampling.folder is not None and sampling.weight_transfer != "disk":
        raise UsageError('sampling.folder does nothing without weight_transfer = "disk"', "set it, or take this out")


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
