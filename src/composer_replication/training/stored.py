"""What training keeps on disk besides weights: token ids of traces, and one line per optimiser step."""

from __future__ import annotations

from composer_replication.records import StoredRecord


class TokenizedTrace(StoredRecord):
    """The ids of one trace under one tokenizer; `turn_spans` cuts the sampled turns out of `ids`."""

    trace_id: str
    tokenizer: str
    ids: tuple[int, ...]
    turn_spans: tuple[tuple[int, int], ...]
    logprobs: tuple[float, ...]
    """Log-probability of each sampled token, 0 on the others."""
    reward: float


class StartingPolicy(StoredRecord):
    """The policy before training: what every later number is measured against."""

    name: str
    warmup_steps: int
    parameters: int
    weights_sha256: str


class TrainingStep(StoredRecord):
    """What one step looked like. A channel that was off has no loss."""

    step: int
    reward: float
    policy: float
    sdpo: float | None
    replay: float | None
    grad_norm: float
    entropy: float
    flat_groups: float
    """Share of groups whose rollouts all got the same reward, and so taught nothing."""
