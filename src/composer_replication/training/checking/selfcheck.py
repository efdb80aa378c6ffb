"""Does a recipe work on this machine? A few minutes of it: ten steps, what hints change, and whether zero means zero.

    exactness   with both weights 0, two steps end in the same bits as TRL's own trainer
    gap         an empty hint changes nothing (< 1e-6 in float32, < 1e-2 in bfloat16), a real one something
    steps       ten steps of the recipe: seconds, peak memory beside the estimate, finite losses

Weights are kept in the recipe's type, and adapters are trained where it has some. Trains copies that are thrown away;
writes RUN/selfcheck.json and RUN/selfcheck.md.
"""

from __future__ import annotations

import gc
import hashlib
import math
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import torch
from torch.distributed.tensor import DTensor
from transformers import PrinterCallback, set_seed
from trl.trainer.grpo_trainer import GRPOTrainer

from composer_replication.config import Config
from composer_replication.environments.protocol import Environment
from composer_replication.progress import Progress, Silent

from ..backends.trl.arguments import grpo_config
from ..backends.trl.rollouts import EnvironmentRollouts, only_read, prompts_of
from ..backends.trl.trainer import ComposerReplicationTrainer
from ..lessons.hinters import attempts_per_task
from ..machine import MIB, MemoryMeter, describe_machine
from ..models.loading import Policy
from ..stored.examples import TraceExample
from ..train import train, training_tasks
from .gap_probe import GapProbe, probe_gap


class Check(NamedTuple):
    name: str
    passed: bool
    detail: str


@dataclass(frozen=True)
class ResultCard:
    """What was found, as JSON and as a page that can be pasted into an issue or a recipe's README."""

    model: str
    machine: dict[str, Any]
    rollouts_per_step: int
    seconds: float
    step_seconds: list[float]
    """The first one includes loading and compiling."""
    peak_mib: float
    estimate_mib: float | None
    steps: int
    rewards: list[float]
    is_finite: bool
    gap: GapProbe
    checks: list[Check]

    @property
    def passed(self) -> bool:
        return all(check.passed for check in self.checks)

    @property
    def median_step_s(self) -> float:
        return median(self.step_seconds[1:] or self.step_seconds)

    def as_json(self) -> dict[str, Any]:
        return {
            **asdict(self),
            "gap": self.gap._asdict(),
            "checks": [check._asdict() for check in self.checks],
            "median_step_s": self.median_step_s,
            "passed": self.passed,
        }

    def as_markdown(self) -> str:
        gap = self.gap
        estimate = f"{self.estimate_mib:,.0f} MiB" if self.estimate_mib else "unknown"
        rows = [
            ("model", self.model),
            *((name.replace("_", " "), str(value)) for name, value in self.machine.items()),
            ("rollouts per step", str(self.rollouts_per_step)),
            ("seconds per step", f"{self.median_step_s:.2f} (median), {self.step_seconds[0]:.2f} (first)"),
            ("peak memory", f"{self.peak_mib:,.0f} MiB; estimate {estimate}"),
            ("rewards", " ".join(f"{reward:.2f}" for reward in self.rewards) or "none: no rollouts"),
            ("error sites", f"{gap.sites} in {gap.rollouts} rollouts"),
            (
                "divergence with the hint",
                f"{gap.hinted_divergence:.4f} mean; without {gap.plain_divergence:.1e} at most",
            ),
            ("turns that the hint disfavours", f"{gap.disfavoured:.0%}"),
            ("nats per token", f"{gap.student_nll:.3f} plain, {gap.hinted_nll:.3f} with the hint"),
            ("seconds in all", f"{self.seconds:.0f}"),
        ]
        lines = ["| selfcheck | |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows)]
        lines += [
            f"| {'PASS' if check.passed else '**FAIL**'} | {check.name}: {check.detail} |" for check in self.checks
        ]
        return "\n".join(lines) + "\n"


STEPS, EXACT_STEPS, PROBED_ROLLOUTS = 10, 2, 128
MAX_EMPTY_DIVERGENCE = {"float32": 1e-6, "bfloat16": 1e-2}
"""Of one turn read at two paddings: what rounding alone makes of it."""


def check_machine(
    load: Callable[[], Policy],
    config: Config,
    environment: Environment,
    examples: Sequence[TraceExample],
    scratch: Path,
    estimate_mib: float | None,
    progress: Progress,
) -> ResultCard:
    """`load` gives a fresh copy of the starting policy each time."""
    started = time.monotonic()
    progress.stage("selfcheck", "ten steps, what hints change, and whether zero means zero")
    ten, exact = (_changed(config, steps=steps, checkpoint_every=0) for steps in (STEPS, EXACT_STEPS))
    measured = _measure_steps(load, ten, environment, examples, scratch / "steps", progress)
    progress.note("what hints change")
    attempts = attempts_per_task(config)
    asked = training_tasks(
        environment, _changed(config, steps=1, prompts_per_step=math.ceil(PROBED_ROLLOUTS / attempts))
    )
    probed = [task for task in asked for _ in range(attempts)]
    gap = probe_gap(load(), config, environment, probed)
    progress.note("two steps of TRL's own trainer, and two of ours with both weights 0")
    plain, ours = (
        _digest_after(kind, load(), exact, environment, scratch / "exact")
        for kind in (GRPOTrainer, ComposerReplicationTrainer)
    )
    shutil.rmtree(scratch, ignore_errors=True)
    return ResultCard(
        model=config.model.name,
        machine=describe_machine(),
        rollouts_per_step=config.training.prompts_per_step * config.training.group_size,
        seconds=round(time.monotonic() - started, 1),
        estimate_mib=estimate_mib,
        gap=gap,
        checks=_checks(measured, gap, plain == ours, MAX_EMPTY_DIVERGENCE[config.hardware.weights]),
        **measured,
    )


def _measure_steps(
    load: Callable[[], Policy],
    config: Config,
    environment: Environment,
    examples: Sequence[TraceExample],
    scratch: Path,
    progress: Progress,
) -> dict[str, Any]:
    gc.collect()
    meter, clock = MemoryMeter(), _Clock(progress)
    steps = train(load(), config, environment, examples, scratch, clock)
    losses = [value for step in steps for value in (step.policy, *step.channels.values(), step.grad_norm)]
    return {
        "step_seconds": [round(after - before, 3) for before, after in zip(clock.times, clock.times[1:], strict=False)],
        "peak_mib": round(meter.peak_bytes() / MIB, 1),
        "steps": len(steps),
        "rewards": [round(step.reward, 4) for step in steps if step.reward is not None],
        "is_finite": all(map(math.isfinite, losses)),
    }


def _checks(measured: dict[str, Any], gap: GapProbe, is_exact: bool, limit: float) -> list[Check]:
    steps = measured["steps"]
    return [
        Check("ten steps, all finite", steps == STEPS and measured["is_finite"], f"{steps} steps"),
        Check(
            "an empty hint changes nothing",
            gap.sites > 0 and gap.plain_divergence < limit,
            f"largest divergence {gap.plain_divergence:.1e} over {gap.sites} sites, limit {limit:.0e}",
        ),
        Check(
            "a hint changes something",
            gap.hinted_divergence > max(MAX_EMPTY_DIVERGENCE["float32"], gap.plain_divergence),
            f"mean divergence {gap.hinted_divergence:.4f}",
        ),
        Check("weights 0 and 0 are plain TRL", is_exact, f"bit for bit after {EXACT_STEPS} steps"),
    ]


def _digest_after(
    kind: Callable[..., GRPOTrainer], policy: Policy, config: Config, environment: Environment, scratch: Path
) -> str:
    tasks = training_tasks(environment, config)
    rollouts = EnvironmentRollouts(policy, environment, tasks, only_read(config.training), seed=config.seed)
    weights: dict[str, Any] = {"alpha_sdpo": 0.0, "beta_replay": 0.0} if kind is ComposerReplicationTrainer else {}
    # Adapters begin at random, before the trainer sets its own seed.
    set_seed(config.seed)
    trainer = kind(
        model=policy.model,
        processing_class=policy.tokenizer,
        args=grpo_config(config, scratch),
        reward_funcs=rollouts.episode_reward,
        train_dataset=prompts_of(tasks),
        rollout_func=rollouts,
        peft_config=config.hardware.lora_config(),
        **weights,
    )
    trainer.remove_callback(PrinterCallback)
    trainer.train()
    digest = hashlib.sha256()
    for parameter in policy.model.parameters():
        own = parameter.to_local() if isinstance(parameter, DTensor) else parameter
        digest.update(own.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def _changed(config: Config, **training: int) -> Config:
    return config.model_copy(update={"training": config.training.model_copy(update=training)})


class _Clock(Silent):
    """When each step ended."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self.times = [time.monotonic()]
        self._done = 0

    def step(self, done: int, total: int, detail: str = "", left_s: float | None = None) -> None:
        if done > self._done:  # else it tells of a part of the next one
            self.times.append(time.monotonic())
            self._done = done
        self._progress.step(done, total, detail)

    def note(self, text: str) -> None:
        self._progress.note(text)
