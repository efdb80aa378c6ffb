"""The policy's own stages: making the starting model, and playing to make traces."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import torch

from composer_replication.config import Config
from composer_replication.environments.evidence import TraceEvidence
from composer_replication.environments.protocol import TRAIN, Environment, EnvironmentTask
from composer_replication.progress import Progress
from composer_replication.records import Trace
from composer_replication.store import hash_of

from .models.loading import Policy, load_policy
from .rollouts.playing import repeated, sample_rollouts
from .stored.records import StartingPolicy, TokenizedTrace
from .warmup import warm_up


def prepare_policy(config: Config, environment: Environment, folder: Path, progress: Progress) -> StartingPolicy:
    """Load or build the model, warm it up on noisy old logs, and save it in the type that training keeps it in.

    A warm-up learns in float32: bfloat16 would lose its small steps.
    """
    weights = config.hardware.weights
    _tell_warm_up(config, progress)
    learns_in = "float32" if config.warmup.steps else weights
    settings = config.model.chat_template_kwargs
    policy = load_policy(config.model.name, environment, config.seed, learns_in, settings)

    def on_step(step: int, loss: float) -> None:
        progress.step(step, config.warmup.steps, f"loss {loss:.2f}")

    warm_up(policy.model, policy.tokens, environment, config.warmup, config.seed, on_step)
    policy.model.to(getattr(torch, weights))
    policy.save(folder)
    return StartingPolicy(
        name=policy.name,
        warmup_steps=config.warmup.steps,
        parameters=sum(parameter.numel() for parameter in policy.model.parameters()),
        weights_sha256=hash_of(sorted(folder.glob("*.safetensors"))),
        hint_place=None if policy.tokens.hint_place == "message" else policy.tokens.hint_place,
    )


def _tell_warm_up(config: Config, progress: Progress) -> None:
    steps, name = config.warmup.steps, config.model.name
    if name == "tiny":
        return
    if steps:
        progress.note(f"{steps} warm-up steps on old logs change {name} before anything is measured: [warmup] asks it")
    else:
        progress.note(f"{name} starts as it is: without [warmup] steps there is no warm-up")


class Played(NamedTuple):
    """Rollouts as traces, the ids that were sampled, and what the episodes left behind."""

    traces: list[Trace]
    rows: list[TokenizedTrace]
    evidence: list[TraceEvidence]


def play(policy: Policy, config: Config, environment: Environment, progress: Progress | None = None) -> Played:
    return recorded(policy, config, environment, tasks_to_play(config, environment), progress)


def tasks_to_play(config: Config, environment: Environment) -> list[EnvironmentTask]:
    each = config.ingestion.rollouts_per_task
    different = islice(repeated(environment.tasks(TRAIN, "ingestion")), -(-config.ingestion.rollouts // each))
    return [task for task in different for _ in range(each)][: config.ingestion.rollouts]


def recorded(
    policy: Policy,
    config: Config,
    environment: Environment,
    tasks: Sequence[EnvironmentTask],
    progress: Progress | None = None,
    *,
    first: int = 0,
    generator: torch.Generator | None = None,
) -> Played:
    """`first`: the number of the first of these tasks among all that are played."""
    rollouts = sample_rollouts(policy, environment, config, tasks, generator, progress)
    traces = [rollout.trace(policy.name, sample) for sample, rollout in enumerate(rollouts, first)]
    fingerprint = policy.tokenizer_fingerprint
    rows = [
        row
        for trace, rollout in zip(traces, rollouts, strict=True)
        for row in rollout.stored(trace.trace_id, fingerprint)
    ]
    evidence = [
        TraceEvidence(trace_id=trace.trace_id, evidence=left)
        for trace, rollout in zip(traces, rollouts, strict=True)
        if (left := rollout.episode.evidence)
    ]
    return Played(traces, rows, evidence)
