"""The policy's own stages: making the starting model, and playing the toolbox to make traces."""

from __future__ import annotations

import hashlib
from itertools import islice
from pathlib import Path

from composer_replication.config import Config
from composer_replication.environments.toolbox import task_stream, trace_of
from composer_replication.progress import Progress
from composer_replication.records import Trace

from .models.loading import Policy, load_policy
from .rollouts.toolbox import sample_rollouts
from .stored.records import StartingPolicy, TokenizedTrace
from .warmup import warm_up

# Far from the tasks of the warm-up, which start at 0, and from those of training.
FIRST_ROLLOUT_TASK = 200_000_000
TASKS_PER_SEED = 1_000_000


def prepare_policy(config: Config, folder: Path, progress: Progress) -> StartingPolicy:
    """Load or build the model, warm it up on noisy old logs, and save it."""
    policy = load_policy(config.model.name, config.toolbox, config.seed)

    def on_step(step: int, loss: float) -> None:
        progress.step(step, config.warmup.steps, f"loss {loss:.2f}")

    warm_up(policy.model, policy.tokens, config.toolbox, config.warmup, config.seed, on_step)
    policy.save(folder)
    weights = b"".join(path.read_bytes() for path in sorted(folder.glob("*.safetensors")))
    return StartingPolicy(
        name=policy.name,
        warmup_steps=config.warmup.steps,
        parameters=sum(parameter.numel() for parameter in policy.model.parameters()),
        weights_sha256=hashlib.sha256(weights).hexdigest(),
    )


def play(policy: Policy, config: Config) -> tuple[list[Trace], list[TokenizedTrace]]:
    """Toolbox rollouts as traces, and the ids that were sampled."""
    first = FIRST_ROLLOUT_TASK + config.seed * TASKS_PER_SEED
    each = config.ingestion.rollouts_per_task
    different = islice(task_stream(config.toolbox, "train", first), -(-config.ingestion.rollouts // each))
    tasks = [task for task in different for _ in range(each)][: config.ingestion.rollouts]
    rollouts = sample_rollouts(policy, config, tasks)
    traces = [trace_of(rollout.episode, policy.name, sample) for sample, rollout in enumerate(rollouts)]
    fingerprint = policy.tokenizer_fingerprint
    rows = [rollout.stored(trace.trace_id, fingerprint) for trace, rollout in zip(traces, rollouts, strict=True)]
    return traces, rows
