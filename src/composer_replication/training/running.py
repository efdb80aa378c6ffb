"""What every backend shares: what it gets ready first, which tasks and hints it takes, how it says where it is."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from transformers import TrainerCallback

from composer_replication.config import Config, TrainingConfig
from composer_replication.environments.protocol import TRAIN, Environment, EnvironmentTask
from composer_replication.errors import UsageError
from composer_replication.objective import GrpoSettings, SdpoSettings
from composer_replication.progress import Progress, repeating
from composer_replication.runs import needed

from .alarms import COMPARED_STEPS, Thresholds
from .metrics import MetricsFile
from .models.loading import Policy, at_work
from .models.muon import muon_with_adamw
from .stored.collator import ComposerDataCollator
from .stored.examples import TraceExample
from .stored.records import TrainingStep
from .stored.reference import with_reference_logprobs
from .watchdogs import Watchdog

SHARE_WORTH_TELLING = 0.05
SECONDS_OF_SILENCE = 60.0


def prepared(
    policy: Policy,
    config: Config,
    examples: Sequence[TraceExample],
    folder: Path,
    progress: Progress,
    callbacks: Sequence[TrainerCallback],
    empty_hint_divergence: Callable[[], float] | None,
) -> tuple[ComposerDataCollator, Sequence[TraceExample], Watchdog, list[TrainerCallback]]:
    """Stored examples with the policy's log-probabilities before training, and who watches it: the watchdog, and all
    callbacks, with it among them. Notes what is odd."""
    warn_of_stuck_weights(policy.model, config, progress)
    collator = ComposerDataCollator(policy.tokenizer.pad_token_id)
    folder.mkdir(parents=True, exist_ok=True)
    with (
        at_work(policy.model) as device,
        torch.autocast(device, torch.bfloat16, enabled=config.hardware.autocasts(device == "cuda")),
    ):
        stored = with_reference_logprobs(policy, examples, collator, folder / "reference.json")
    if not stored and needed(config):
        progress.note("no stored sites or pairs with token ids: channels on stored traces have nothing to learn from")
    grpo, steps = config.channel(GrpoSettings), config.training.steps
    watchdog = Watchdog(
        folder.parent,
        progress,
        limits=Thresholds(
            canary_rate=config.monitor.alarm_rate if config.monitor.enabled else None,
            compared_steps=min(steps, max(COMPARED_STEPS, math.ceil(steps / 10))) if grpo.weight else None,
            imitates=grpo.advantage == "accepted",
        ),
        jsd_beta=config.channel(SdpoSettings).jsd_beta,
        reads_stored=bool(stored),
        empty_hint_divergence=empty_hint_divergence,
    )
    said = [ProgressCallback(config.training, progress), MetricsFile(folder / "metrics.jsonl")]
    return collator, stored, watchdog, [*said, watchdog, *callbacks]


def training_tasks(environment: Environment, config: Config) -> list[EnvironmentTask]:
    """One for each prompt of the run. Where there are fewer, they come again, in another order each time."""
    needed, drawn = config.training.steps * config.training.prompts_per_step, random.Random(f"tasks:{config.seed}")
    tasks = environment.tasks(TRAIN, "training")
    if not isinstance(tasks, Sequence):
        return list(islice(tasks, needed))
    if not tasks:
        raise UsageError(f"{environment.name} has no task to train on", "give it more tasks, or hold fewer out")
    chosen: list[EnvironmentTask] = []
    while len(chosen) < needed:
        chosen += drawn.sample(tasks, len(tasks))
    return chosen[:needed]


def use_optimizer(trainer: Any, name: str) -> None:
    """Of a trainer of the transformers library, which uses AdamW unless it is told otherwise.

    Muon's updates are scaled to the size of AdamW's, so the two have one learning rate.
    """
    if name == "muon":
        _, adamw = trainer.get_optimizer_cls_and_kwargs(trainer.args, trainer.model)
        undecayed = {"lr": adamw["lr"], "weight_decay": 0.0}
        options = {"muon": {**undecayed, "adjust_lr_fn": "match_rms_adamw"}, "adamw": {**adamw, **undecayed}}
        trainer.optimizer_cls_and_kwargs = (lambda: muon_with_adamw, options)


class ProgressCallback(TrainerCallback):
    """Says where training is; of a step that makes a checkpoint, when that is whole."""

    def __init__(self, settings: TrainingConfig, progress: Progress) -> None:
        self._settings, self._total, self._progress, self._parts = settings, settings.steps, progress, 0
        self._unsaved = ""

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.is_world_process_zero:
            slow = "" if torch.cuda.is_available() else "; on a CPU it may take minutes"
            self._progress.note(f"step {state.global_step + 1} of {self._total} begins, and a line follows each{slow}")
            # From here on the first step is timed, so its line can tell the time that is left.
            self._progress.step(state.global_step, self._total)

    def on_substep_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._parts += 1
        what = f"step {state.global_step + 1}, part {self._parts} of {args.gradient_accumulation_steps}"
        self._progress.step(state.global_step, self._total, what)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._parts = 0

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **kwargs: Any) -> None:
        if logs and "grad_norm" in logs:
            what = f"reward {logs['reward']:.2f}" if logs.get("reward") is not None else f"loss {logs['loss']:.3g}"
            if logs.get("rollout/truncation_rate") == 1:
                what += f", each rollout had a turn cut off at max_turn_tokens, {self._settings.max_turn_tokens}"
            if logs.get("rollout/unparsable_share") == 1:
                what += ", no answer could be parsed"
            waited = logs.get("rollout/environment_share", 0.0)
            if waited >= SHARE_WORTH_TELLING:
                what += f", {waited:.0%} of the rollouts' time in the environment"
            self._unsaved = what
            if not control.should_save:
                self._tell(state)

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._tell(state)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._tell(state)

    def _tell(self, state: Any) -> None:
        if self._unsaved:
            self._progress.step(state.global_step, self._total, self._unsaved)
        self._unsaved = ""


@contextmanager
def telling_of(
    progress: Progress,
    total: int,
    step: Callable[[], int],
    phase: Callable[[], str],
    held: Callable[[], int] | None = None,
) -> Generator[None]:
    """Once a minute, from a thread, what the step is at: on a CPU one turn of all rollouts may take minutes.

    At an interrupt, what is kept: `held` counts the steps of the last checkpoint; None where this backend makes none.
    """

    def tell() -> None:
        if (done := step()) < total:
            progress.step(done, total, f"step {done + 1}, {phase()}")

    try:
        with repeating(tell, SECONDS_OF_SILENCE):
            yield
    except KeyboardInterrupt:
        progress.note(_told_kept(step(), held and held()))
        raise


def _told_kept(done: int, held: int | None) -> str:
    """`held`: by the last checkpoint; None where the backend makes none."""
    kept = held or 0
    finished = f"{done} {'step' if done == 1 else 'steps'} finished, {kept} kept"
    if held is None:
        return f"{finished}: this backend makes no checkpoints"
    # One step is lost, at the least interval too, where it was not saved yet.
    return finished + ". training.checkpoint_every = 1 keeps each" * (done - kept > 1)


def steps_of(log_history: Iterable[dict[str, Any]]) -> list[TrainingStep]:
    return [_step_of(entry) for entry in log_history if "grad_norm" in entry]


def _step_of(entry: dict[str, Any]) -> TrainingStep:
    return TrainingStep(
        step=entry["step"],
        policy=float(entry.get("channel/policy", entry["loss"])),
        grad_norm=float(entry["grad_norm"]),
        channels={
            name.removeprefix("channel/"): value
            for name, value in entry.items()
            if name.startswith("channel/") and name != "channel/policy"
        },
        reward=entry.get("reward"),
        entropy=entry.get("entropy"),
        flat_groups=entry.get("frac_reward_zero_std"),
    )


BITS = 8
"""Of bfloat16's significand, the hidden one included: a number's neighbours lie 2 ** (exponent - 7) away."""
ENOUGH = 0.5


@torch.no_grad()
def movable_share(model: Any, learning_rate: float) -> float:
    """Of the trainable entries those that a step of Adam's usual size, the learning rate, does not round away."""
    # Such a step is at least half the distance to the next number if the exponent is at most this.
    largest = math.floor(math.log2(learning_rate)) + BITS
    moving = total = 0
    for parameter in model.parameters():
        if parameter.requires_grad:
            moving += int((parameter.abs() < 2.0 ** (largest + 1)).sum())
            total += parameter.numel()
    return moving / total if total else 1.0


def warn_of_stuck_weights(model: Any, config: Config, progress: Progress) -> None:
    if config.hardware.weights != "bfloat16" or config.hardware.lora_rank:
        return
    share = movable_share(model, config.training.learning_rate)
    if share < ENOUGH:
        progress.note(
            f"weights in bfloat16 at a learning rate of {config.training.learning_rate:g}: {share:.1%} of the entries "
            'can move, the others round each step away; set hardware.weights = "float32", or hardware.lora_rank'
        )
