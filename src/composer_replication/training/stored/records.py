"""What training keeps on disk besides weights: token ids of traces, a line per step, alarms and sampled rollouts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pydantic import ConfigDict, Field

from composer_replication.objective import GrpoSettings
from composer_replication.records import Message, Record, StoredRecord
from composer_replication.windows import WHOLE, Level


class TokenizedTrace(StoredRecord):
    """The ids of one trace under one tokenizer; `turn_spans` cuts the assistant's turns out of `ids`.

    A rollout was sampled so. Of an ingested trace it is what the actor saw in one segment, rendered.
    """

    trace_id: str
    tokenizer: str
    ids: tuple[int, ...]
    turn_spans: tuple[tuple[int, int], ...]
    logprobs: tuple[float, ...]
    """Log-probability of each sampled token, 0 on the others; none where nothing was sampled."""
    reward: float
    segment: int = 0
    level: Level = WHOLE
    """How much of long messages was left out before they were rendered."""
    turns: tuple[int, ...] = Field(default=(), exclude_if=lambda turns: not turns)
    """Which turns of its trace the spans are, where they are not all of them in their order."""

    @property
    def places(self) -> dict[int, int]:
        """Turn of the trace -> its span."""
        numbers = self.turns or range(len(self.turn_spans))
        return {number: place for place, number in enumerate(numbers)}


class StartingPolicy(StoredRecord):
    """The policy before training: what every later number is measured against."""

    name: str
    warmup_steps: int
    parameters: int
    weights_sha256: str
    hint_place: str | None = Field(default=None, exclude_if=lambda place: place is None)
    """Where hints stand if its chat template takes no message of the user before a turn."""


class TrainingStep(StoredRecord):
    """What one step looked like. A channel that was off has no loss; without rollouts there is no reward."""

    step: int
    reward: float | None
    policy: float
    channels: dict[str, float] = Field(default_factory=dict)
    """Loss of each added channel, by the name that it gives itself."""
    grad_norm: float
    entropy: float | None
    flat_groups: float | None
    """Share of groups whose rollouts all got the same reward, and so taught nothing."""


def steps_without_advantage(steps: Iterable[TrainingStep], grpo: GrpoSettings) -> int:
    """Steps in which every group's rollouts got one reward. Imitation learns there too, from what was accepted."""
    imitates = grpo.advantage == "accepted"
    return sum(step.flat_groups == 1 and not (imitates and step.reward) for step in steps) if grpo.weight else 0


def told_without_advantage(steps: Sequence[TrainingStep], grpo: GrpoSettings) -> str | None:
    number = steps_without_advantage(steps, grpo)
    told = f"In {number} of {len(steps)} steps no group had an advantage: channel 1 taught nothing there."
    return told if number else None


class TokenWeights(StoredRecord):
    """How much a channel's weighted loss pulls at each token: the norm of its gradient at the logits before it."""

    step: int
    channel: str
    part: str
    """`rollout`, or of stored data `site`, `chosen` or `rejected`."""
    trace_id: str | None
    ids: tuple[int, ...]
    weights: tuple[float, ...]
    mask: tuple[int, ...] = ()
    """1 where the channel's loss looks at the token; none in records of before."""
    entropy: tuple[float, ...] = ()
    """Of the policy before each token that the mask marks, in nats; 0 on the others."""
    pieces: tuple[str, ...] = ()
    """What each id stands for, so that a reader needs no tokenizer."""


class Alarm(StoredRecord):
    """Something that a healthy run does not show, and how to go on from the last checkpoint."""

    model_config = ConfigDict(ser_json_inf_nan="strings")

    name: str
    step: int
    value: float
    threshold: float
    sentence: str
    resume: str
    stopped: bool = False
    """Whether the run was ended here."""


class TurnSample(Record):
    """One turn of a kept rollout: what the policy wrote, what came back, and what was wrong with it."""

    action: str
    observations: tuple[str, ...]
    error_kinds: tuple[str, ...] = ()
    hint: str | None = None
    """The hint that channel 2 taught this turn with."""


class RolloutSample(StoredRecord):
    """A rollout kept for people to read; long texts are cut in the middle."""

    step: int
    trace_id: str
    task_id: str | None
    reward: float
    prompt: tuple[Message, ...]
    turns: tuple[TurnSample, ...]
    sampled_tokens: int
    model_versions: tuple[int, ...] = ()
    """How often the weights had been refreshed that wrote each turn; 0 where they are always the newest."""
