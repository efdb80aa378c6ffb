"""Settings of a run: TOML in, one frozen tree, resolved JSON out. An unknown key is refused with the nearest name."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field, ValidationError, field_validator, model_validator

from .errors import UsageError
from .objective import DEFAULT_CHANNELS, AnyChannel, ChannelSettings, in_new_form, in_old_words, repeated, told_twice
from .records import digest_of
from .sections import (
    AboveZero,
    Address,
    Count,
    DilocoConfig,
    EnvironmentName,
    Flag,
    Fraction,
    KeyVariable,
    PenaltyWeight,
    Positive,
    Section,
    Several,
    WarmupConfig,
    Weight,
    explain,
    told_gone,
)

AnySettings = TypeVar("AnySettings", bound=ChannelSettings)


TOOLBOX_TOOLS = 24


class ToolboxConfig(Section):
    """Difficulty of the toolbox environment; part of what a task id means."""

    listed: tuple[Positive, Positive] = (5, 7)
    """Fewest and most tools listed in an episode."""
    rename_rate: Fraction = 0.2
    """Chance that a listed tool appears under another name than its base name."""
    rename_verbs: Flag = False
    """Whether another name may also use another verb; otherwise it keeps the verb and changes the noun."""
    quoted_int_rate: Fraction = 0.0
    """Chance that an integer parameter is listed as a string in this episode."""
    call_mix: tuple[Fraction, Fraction, Fraction] = (0.75, 0.2, 0.05)
    """Weights of tasks that need one, two and three dependent calls."""
    vague_rate: Fraction = 0.0
    """Chance that a request leaves out one value of its last call: nobody but the oracle knows it."""
    leak: Literal["none", "open", "scrubbed"] = "none"
    """Whether a tool and a hidden file give the oracle's call away; scrubbed, both are there and say nothing."""

    @field_validator("listed")
    @classmethod
    def _possible(cls, listed: tuple[int, int]) -> tuple[int, int]:
        if not listed[0] <= listed[1] <= TOOLBOX_TOOLS:
            raise ValueError(f"must be a range within {TOOLBOX_TOOLS} tools")
        return listed


class EnvironmentConfig(Section):
    """Where the policy acts. The toolbox has a section of its own; the others read what stands here."""

    name: EnvironmentName = "toolbox"
    """`toolbox`, `code`, `openenv`, `verifiers`, `harbor`, or `package.module:factory` of your own."""
    tasks: tuple[str, ...] = ()
    """`code` and `harbor`: folders of tasks."""
    answer: Literal["agent", "definition"] = "agent"
    """`code`: work with six tools, or write one code block and read what the visible tests say."""
    harness: str | None = Field(default=None, exclude_if=lambda harness: harness is None)
    """`code`: an agent that plays instead, by its name or as a command; see docs/harness.md."""
    harness_runtime: str | None = Field(default=None, exclude_if=lambda runtime: runtime is None)
    """The folder that the harness is installed in, shown read-only in its sandbox."""
    tries: Positive = 3
    """`definition`: code blocks in one episode."""
    max_steps: Positive = 60
    """Tool calls in one episode; of a harness, its calls of the model."""
    completion_tokens: Positive = 8192
    """Turns and answers of one episode together; the toolbox has limits of its own."""
    concurrency: Positive = 8
    """Episodes that act at a time."""
    step_timeout_s: AboveZero = 600.0
    """Of one turn, grading included."""
    sandbox: str = "auto"
    """Backend of the sandbox; `auto` takes the strictest that works here."""
    heldout_share: Fraction = 0.25
    """`code` and `harbor`: about this share of the repositories is never trained on, chosen by name; with one
    repository, of its tasks."""
    heldout_repositories: tuple[str, ...] = ()
    """Repositories that are never trained on, instead of `heldout_share`."""
    curriculum: Flag = False
    """Choose training tasks by how often the policy solves them: those near half first."""
    url: str | None = None
    """`openenv`: the server."""
    taskset: str | None = None
    """`verifiers`: the taskset to load."""
    python: str | None = None
    """`verifiers`: the interpreter of the environment that it is installed in."""
    settings: dict[str, Any] = Field(default_factory=dict[str, Any])
    """For an environment of your own."""


class ModelConfig(Section):
    """`[model]`: which policy is trained."""

    name: str = "tiny"
    """`tiny` (built on the spot), `smollm2` or `qwen2.5-coder-1.5b` (after `recompose model fetch`), a folder, or a hub
    id."""
    chat_template_kwargs: dict[str, Any] = Field(
        default_factory=dict[str, Any], exclude_if=lambda settings: not settings
    )
    """Settings of the model's chat template, such as `{ enable_thinking = false }`; it must know each of them."""


class IngestionConfig(Section):
    """`[ingestion]`: what traces are made from."""

    paths: tuple[str, ...] = ()
    """Session files and folders to read."""
    format: str | None = None
    """Format of all of them; found out from each file where this is not set."""
    redact: Flag = True
    """Replace secrets, home folders and e-mail addresses before anything is written."""
    subagents: Flag = False
    """Also read sessions of subagents, which have files of their own."""
    embedded_session: Flag = False
    """Also read the Claude Code session that ships with the package."""
    rollouts: Count = 0
    """Toolbox episodes that the policy plays to make traces of its own."""
    rollouts_per_task: Positive = 1
    """How often each task is played; training without rollouts compares traces of one task."""


class SitesConfig(Section):
    """`[sites]`: a model that reads what users say; off by default."""

    reader_base_url: Address | None = None
    """Loopback OpenAI-compatible server that reads whether the user criticised style, communication or effort."""
    reader_model: str | None = None
    """Model name at `reader_base_url`."""
    reader_timeout_s: AboveZero = 60.0
    """Seconds that one answer of the reader may take."""


class HintsConfig(Section):
    """`[hints]`: how long and how telling a hint may be, and who words it."""

    max_tokens: Positive = 96
    """A longer hint is not used."""
    max_leak_level: Literal["L0", "L1", "L2"] = "L1"
    """L0 the error only, L1 also facts that the context holds, L2 also the answer. A hint above it is not used."""
    drop: tuple[Annotated[str, Field(pattern="^[0-9a-f]{8,64}$")], ...] = ()
    """Hints to leave out, each by the first 8 or more characters of its id or of its site's."""
    sibling: Literal["off", "outcome", "call"] = "off"
    """For rollouts: tell that another attempt at the task succeeded (L1), or show its call (L2)."""
    judge_base_url: Address | None = None
    """Loopback OpenAI-compatible server that writes hints for style, communication and effort."""
    judge_model: str | None = None
    """Model name at `judge_base_url`."""
    judge_timeout_s: AboveZero = 60.0
    """Seconds that one answer of the judge may take."""


class GateConfig(Section):
    """Which states are worth asking about, next to those where the policy erred."""

    entropy_share: Fraction = 0.3
    """Of the states at which the policy was sampled, those where its samples differ most."""
    audit_rate: Fraction = 0.0
    """Share of all other states, drawn at random, to see what the gate overlooks. They cost as much as error states
    and seldom give a pair, so there are none unless this is set."""
    samples: Several = 4
    """Turns that `replay --policy` draws of the policy at each state, at the temperature of training."""
    max_sampled: Positive = 2048
    """Most states at which the policy is sampled: error states first, then others at random."""


class TeacherSettings(Section):
    """`[replay.models.NAME]`: one teacher. What is not said comes from the dated roster, or from its server's host."""

    model: str | None = None
    """Its name at the server; by default NAME."""
    base_url: Address | None = None
    """By default `replay.base_url`. Azure's may end in `?api-version=…`."""
    key_variable: KeyVariable | None = None
    """Name of the environment variable that holds its key."""
    prices: tuple[Weight, Weight] | None = None
    """Dollars per million prompt and completion tokens."""
    cache_prices: tuple[Weight, Weight] | None = None
    """Dollars per million prompt tokens read from the provider's cache, and written to it."""
    context_tokens: Positive | None = None
    """Longest prompt with its answer; a longer history is shown as a window. None: all fits."""
    dialect: Literal["openai", "anthropic", "mistral", "vllm"] | None = None
    """What the server refuses, and which API it speaks."""
    limit: Literal["max_tokens", "max_completion_tokens"] | None = None
    """What the model calls the limit on its answer."""
    temperature: Weight | Literal["unset"] | None = None
    """`unset` leaves it to the provider, for models that refuse any."""
    reasoning_effort: str | None = None
    """Sent as it is; to Anthropic as `output_config.effort`. None: not sent."""
    extra_body: dict[str, Any] = Field(default_factory=dict[str, Any])
    """More fields of the request."""
    served_as: tuple[str, ...] = ()
    """Other names that its answers may carry: a deployment's, or what an alias stands for."""
    headers: dict[str, str] = Field(default_factory=dict[str, str])
    """More headers. A key has no place here: it comes from `key_variable`."""
    private_network: Flag = False
    """The server may have a private address; https all the same."""


class ReplayConfig(Section):
    """`[replay]`: which teachers are asked, where, and about how many states."""

    simulated: Flag = True
    """Ask the built-in simulated teachers, noisy oracles of the toolbox, over loopback HTTP."""
    simulated_error_rates: Annotated[tuple[Fraction, ...], Field(min_length=1, max_length=26)] = (0.1, 0.2, 0.3)
    """One simulated teacher family per entry, wrong this often."""
    base_url: Address | None = None
    """OpenAI-compatible server to ask instead of the simulated teachers: https, or http on loopback."""
    teachers: tuple[str, ...] = ()
    """Model names at `base_url`, one vote per family; without it, names of the built-in roster, by default all."""
    prices: dict[str, tuple[Weight, Weight]] = Field(default_factory=dict[str, tuple[float, float]])
    """Dollars per million prompt and completion tokens, by model. A model off loopback must have a price."""
    key_variable: KeyVariable | None = None
    """Name of the environment variable that holds the key for `base_url`."""
    models: dict[str, TeacherSettings] = Field(
        default_factory=dict[str, TeacherSettings], exclude_if=lambda models: not models
    )
    """Settings of single teachers, by the name that `teachers` or `--teacher` uses."""
    own_family: Flag = False
    """Also ask teachers of the family that made a turn, and count their vote on it."""
    max_states: Positive = 256
    """The most that teachers are asked about, early turns first."""
    gate: GateConfig = GateConfig()
    """Which states these are."""
    concurrency: Positive = 8
    """Most calls in flight to one teacher; fewer while it complains."""
    max_tokens: Positive = 2048
    """Longest answer, reasoning included. Of the turns in real sessions 256 cuts a fifth, 2048 one in a hundred."""
    timeout_s: AboveZero = 60.0
    """From the first byte sent to the last one received."""
    batch_poll_s: AboveZero = 30.0
    """With `--batch`: how often the provider is asked whether a batch is done."""
    max_attempts: Positive = 6
    """Tries per question where the provider, and not the question, is the trouble."""
    max_useless: Count = 8
    """A teacher is left alone when its first answers, this many, are all cut, refused or another model's; 0 never."""
    one_teacher: Flag = False
    """Let one family's word make a pair where a sample of the policy differs from it; needs `replay --policy`."""


class PairsConfig(Section):
    """`[pairs]`: when votes become a preference."""

    rule: Literal["agreement", "majority"] = "agreement"
    """`agreement`: two thirds of the families over the policy or the actor. `majority`: the origin's simpler rule."""
    execution: Flag = False
    """Let the environment say which calls have the same effect, where it can replay them."""
    critical: Flag = True
    """Accept agreement on everything but arguments that only describe a call, where the same call has none."""
    free_text: Flag = False
    """Let answers without a call vote too; they must be equal but for blanks."""
    calibrate: Flag = False
    """Measure precision where an oracle exists, and drop cells whose lower bound is under `min_precision`."""
    min_precision: Fraction = 0.8
    """The lower bound that a cell must reach."""


class TrainingConfig(Section):
    """`[training]`: steps, rollouts, rates and limits."""

    rollouts: Flag = True
    """Play the environment in each step. Without it all channels learn from stored traces alone."""
    steps: Positive = 28
    """Optimiser steps."""
    prompts_per_step: Positive = 16
    """Tasks of one step."""
    group_size: Several = 8
    """Rollouts per task; their rewards are compared with each other."""
    learning_rate: AboveZero = 8e-4
    """Constant after the warm-up of the rate."""
    rate_warmup_steps: Count = Field(default=3, exclude_if=lambda steps: steps == 3)
    """The rate rises over so many steps, the first of them at 0; with 0 the first step moves weights too."""
    optimizer: Literal["adamw", "muon"] = Field(default="adamw", exclude_if=lambda name: name == "adamw")
    """`muon` takes the matrices of the hidden layers, at this learning rate, and leaves the rest to AdamW."""
    temperature: AboveZero = 1.0
    """Of sampling, and of the policy gradient."""
    max_turn_tokens: Positive = 40
    """A turn is cut after this many tokens."""
    gradient_ratio_cap: AboveZero | None = 0.5
    """Largest weighted gradient of a channel, as a multiple of the policy gradient's. None: channels
    keep their whole weight from the first step, and no gradient is measured or logged."""
    gradient_ratio_target: Flag = Field(default=False, exclude_if=lambda asked: not asked)
    """Control: also raise a smaller one to the cap, so that every channel pushes as hard, whatever it says."""
    dynamic_sampling_rounds: Count = 0
    """How often groups with one reward throughout are replaced by groups for other prompts."""
    reference_kl: Weight = 0.0
    """Weight of TRL's own KL to the starting policy (its `beta`)."""
    error_turn_penalty: Weight = 0.0
    """Control: taken from the reward for each turn with an error."""
    leak_penalty: Literal["off", "soft", "hard"] = "off"
    """What a look at the toolbox's leak that the monitor sees costs: nothing, `leak_penalty_weight`, or the reward."""
    leak_penalty_weight: PenaltyWeight = 0.2
    """What `soft` takes from the reward of a rollout that looked."""
    leak_ways_known: tuple[Literal["tool", "file"], ...] = ("tool",)
    """The ways to the leak that the monitor has been told of."""
    report_to: Literal["none", "trackio", "wandb"] = "none"
    """Where else the metrics go; they are always in `RUN/training/metrics.jsonl`."""
    checkpoint_every: Count = 0
    """Steps between checkpoints, from which an interrupted training goes on; 0 writes none."""
    traces_per_step: Positive = 8
    """Stored traces that feed the added channels in each forward pass; with accumulation a step has several."""
    token_weights: Flag | None = None
    """Also write how much each channel pulls at each token of the rollouts that are kept, and of the step's stored
    rows, to `RUN/training/token_weights`. None: where it can be, in one process with `--backend trl`."""
    max_tokens: Positive = 2048
    """A stored site or pair that is longer than this gets a window; one that no window fits is skipped and counted."""


class HardwareConfig(Section):
    """What a machine needs of a run. Nothing here changes the objective; LoRA and bfloat16 change how it rounds."""

    rollouts_per_device: Positive | None = None
    """Rollouts of one forward and backward pass on one device; the rest of a step is accumulated. None: all at once."""
    rollouts_at_once: Positive | None = None
    """Rollouts that are sampled at a time where nothing is trained: `ingest`, `evaluate`, probes. None: as many as half
    of the free memory takes, at most 512."""
    weights: Literal["float32", "bfloat16"] = "float32"
    """What the weights are kept in. With LoRA only the frozen ones: adapters stay in float32."""
    autocast: Literal["auto", "off", "bfloat16"] = "auto"
    """Precision of products. `auto` is bfloat16 on a GPU and float32 on a CPU."""
    gradient_checkpointing: Flag = False
    """Keep only the input of each layer and compute the rest again: less memory, about a third more time."""
    lora_rank: Positive | None = None
    """Train adapters of this rank and leave the weights alone. None trains the weights."""
    lora_alpha: Positive = 32
    """Scale of the adapters, as peft names it."""
    lora_targets: str = "all-linear"
    """Which layers get adapters; TRL refuses the output head."""
    vllm: Literal["off", "colocate"] = "off"
    """Sample through a vLLM engine inside each training process, which TRL starts. A server has `[sampling]`."""
    vllm_memory_share: Fraction = 0.3
    """Of each GPU's memory, what vLLM may take when colocated."""

    def autocasts(self, on_gpu: bool) -> bool:
        return on_gpu if self.autocast == "auto" else self.autocast == "bfloat16"

    def accumulation(self, rollouts_per_step: int, processes: int) -> int:
        """Micro-steps per optimiser step."""
        per_process, rest = divmod(rollouts_per_step, processes)
        micro, left_over = divmod(per_process, self.rollouts_per_device or per_process or 1)
        if rest or left_over or not micro:
            raise UsageError(
                f"{rollouts_per_step} rollouts per step cannot be split over {processes} processes in parts of "
                f"{self.rollouts_per_device or 'equal size'}",
                "change training.prompts_per_step, training.group_size or hardware.rollouts_per_device",
            )
        return micro

    def grpo_arguments(self, rollouts_per_step: int, processes: int, on_gpu: bool) -> dict[str, Any]:
        """Arguments of `GRPOConfig` that follow from the machine."""
        micro = self.accumulation(rollouts_per_step, processes)
        arguments: dict[str, Any] = {
            "per_device_train_batch_size": rollouts_per_step // processes // micro,
            "gradient_accumulation_steps": micro,
            "use_cpu": not on_gpu,
            "bf16": self.autocasts(on_gpu),
            "gradient_checkpointing": self.gradient_checkpointing,
        }
        if self.vllm == "off":
            return arguments
        return arguments | {
            "use_vllm": True,
            "vllm_mode": self.vllm,
            "vllm_gpu_memory_utilization": self.vllm_memory_share,
        }

    def lora_config(self) -> Any | None:
        """What `GRPOTrainer` takes as `peft_config`."""
        if self.lora_rank is None:
            return None
        from peft import LoraConfig  # pyright: ignore[reportMissingImports]

        return LoraConfig(
            task_type="CAUSAL_LM", r=self.lora_rank, lora_alpha=self.lora_alpha, target_modules=self.lora_targets
        )


class SamplingConfig(Section):
    """A server that writes the turns of training's rollouts, in place of the policy's own process."""

    server: Address | None = None
    """`http://host:port` of vLLM or SGLang. None samples here."""
    model: str | None = None
    """Its name for the policy; by default the first that it lists."""
    weight_transfer: Literal["nccl", "disk"] = "nccl"
    """How it gets each step's weights: from TRL's client for vLLM, or through a folder that SGLang is told to read."""
    folder: str | None = None
    """`disk`: where the weights are written for the server to read; by default in the run."""
    in_flight: Positive = 64
    """Most requests at a time, of each training process."""
    timeout_s: AboveZero = 600.0
    """Of one request, a turn long."""
    max_attempts: Positive = 8
    """Tries of a request that the server is too busy for, or away."""
    max_staleness: Count = 4
    """`--backend trl_async`: rollouts whose oldest turn is more steps behind than this are thrown away."""

    @field_validator("server")
    @classmethod
    def _is_an_address(cls, server: str | None) -> str | None:
        if server is not None and not server.startswith(("http://", "https://")):
            raise ValueError("must begin with http:// or https://")
        return server

    def grpo_arguments(self) -> dict[str, Any]:
        """Arguments of `GRPOConfig` with which TRL sends the server its weights."""
        if self.server is None or self.weight_transfer == "disk":
            return {}
        return {"use_vllm": True, "vllm_mode": "server", "vllm_server_base_url": self.server}


class MonitorConfig(Section):
    """Whether the rollouts of training are watched for reward hacks, and what a find costs."""

    enabled: Flag = False
    """Watch them."""
    mode: Literal["watch", "penalty", "drop"] = "penalty"
    """`watch` only logs; `penalty` takes the reward on hard evidence; `drop` learns nothing from such a rollout."""
    alarm_rate: Fraction = 0.02
    """An alarm is raised where more of the last rollouts than this hit a canary."""


class EvaluationConfig(Section):
    """`[evaluation]`: what is held out and measured."""

    tasks: Several = 256
    """Tasks per held-out split; the same tasks before and after."""
    splits: tuple[str, ...] = ()
    """Held-out splits of the environment, the first one the headline; by default all that it has."""
    samples: Positive = 1
    """Episodes at each task: one greedy one, or several at the temperature of training, for pass@k."""
    held_out_sessions: Annotated[float, Field(ge=0, lt=1)] = 0.2
    """Share of one's own sessions that training does not see, for `evaluate --on sessions`; none of fewer than five."""

    @field_validator("splits")
    @classmethod
    def _unseen(cls, splits: tuple[str, ...]) -> tuple[str, ...]:
        if "train" in splits:
            raise ValueError("the training split is not held out")
        return splits


class Config(Section):
    """Everything a run depends on. Two runs with equal configs are the same run."""

    seed: Count = 0
    """Of all random generators."""
    model: ModelConfig = ModelConfig()
    """The policy."""
    environment: EnvironmentConfig = EnvironmentConfig()
    toolbox: ToolboxConfig = ToolboxConfig()
    warmup: WarmupConfig = WarmupConfig()
    ingestion: IngestionConfig = IngestionConfig()
    sites: SitesConfig = SitesConfig()
    hints: HintsConfig = HintsConfig()
    replay: ReplayConfig = ReplayConfig()
    pairs: PairsConfig = PairsConfig()
    training: TrainingConfig = TrainingConfig()
    channels: tuple[AnyChannel, ...] = DEFAULT_CHANNELS
    """What the loss adds up; a channel that is not listed is off."""
    hardware: HardwareConfig = HardwareConfig()
    sampling: SamplingConfig = SamplingConfig()
    monitor: MonitorConfig = MonitorConfig()
    diloco: DilocoConfig = Field(default=DilocoConfig(), exclude_if=lambda diloco: diloco == DilocoConfig())
    evaluation: EvaluationConfig = EvaluationConfig()

    @model_validator(mode="before")
    @classmethod
    def _channels_of_before(cls, values: Any) -> Any:
        return in_new_form(values)

    @model_validator(mode="before")
    @classmethod
    def _warm_up_where_asked(cls, values: Any) -> Any:
        """A model that somebody else trained is changed only where the settings say so."""
        if not isinstance(values, dict) or _said(values, "model", "name") in (None, "tiny"):
            return values
        warmup = values.get("warmup", {})
        if _said(values, "warmup", "steps") is not None or not isinstance(warmup, dict | Section):
            return values
        return {**values, "warmup": {**(warmup if isinstance(warmup, dict) else warmup.model_dump()), "steps": 0}}

    @field_validator("channels")
    @classmethod
    def _each_once(cls, channels: tuple[ChannelSettings, ...]) -> tuple[ChannelSettings, ...]:
        if name := repeated(channels):
            raise ValueError(f"{name} stands there twice")
        return channels

    def channel(self, kind: type[AnySettings]) -> AnySettings:
        """The settings of a channel; one that is not listed has weight 0."""
        found = [channel for channel in self.channels if isinstance(channel, kind)]
        return found[0] if found else kind.model_validate({"weight": 0.0})

    def with_channels(self, *changed: ChannelSettings) -> Config:
        """These take the place of those of the same name, or are added."""
        channels = {channel.name: channel for channel in (*self.channels, *changed)}
        return self.model_copy(update={"channels": tuple(channels.values())})

    @property
    def hash(self) -> str:
        return digest_of(self.model_dump(mode="json"))


def _said(values: dict[str, Any], section: str, key: str) -> Any:
    """What was given, in a dictionary or an object; None where the default holds."""
    given = values.get(section)
    if isinstance(given, Section):
        return getattr(given, key) if key in given.model_fields_set else None
    return given.get(key) if isinstance(given, dict) else None


QUICKSTART_INGESTION = IngestionConfig(embedded_session=True, rollouts=192)


def quickstart_config(model: str, seed: int) -> Config:
    """The settings of `recompose quickstart`. A pretrained model gets gentler learning rates and a shorter warm-up."""
    if model == "tiny":
        return Config(seed=seed, ingestion=QUICKSTART_INGESTION)
    return Config(
        seed=seed,
        model=ModelConfig(name=model),
        warmup=WarmupConfig(steps=40, optimizer="adamw", learning_rate=1e-4),
        ingestion=QUICKSTART_INGESTION,
        training=TrainingConfig(learning_rate=1e-5),
    )


def load_quickstart_config(path: Path) -> Config:
    """A file for `recompose quickstart`, which makes traces of its own where the file does not say what to read."""
    config = load_config(path)
    if "ingestion" not in config.model_fields_set:
        return config.model_copy(update={"ingestion": QUICKSTART_INGESTION})
    read = config.ingestion
    if not (read.paths or read.embedded_session or read.rollouts):
        raise UsageError(
            f"{path}: [ingestion] reads nothing",
            "give it paths, rollouts = 192 or embedded_session = true, or leave the section out",
        )
    return config


def load_config(path: Path) -> Config:
    """Read a TOML file; all problems are one line that names the file, the keys and the way out."""
    return parse_config(read_toml(path), str(path))


def read_toml(path: Path) -> dict[str, Any]:
    """The tables of a file as they stand; one line tells why it cannot be read."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise UsageError(f"no config file {path}", "check the path, or recompose init writes one") from error
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}", "give a TOML file") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not valid TOML: {error}", f"mend {path} and run again") from error


def parse_config(values: dict[str, Any], where: str, anew: str | None = None) -> Config:
    """`anew`: the next command where an earlier version wrote the settings, which are then not for mending."""
    try:
        return Config.model_validate(values)
    except ValidationError as error:
        gone = told_gone(values)
        written = str if "channels" in values else in_old_words
        told = explain(error, Config, in_new_form(values), {**told_twice(values), **gone}, written)
        raise UsageError(f"{where}: {told}", (anew if gone else None) or f"mend {where} and run again") from error
