"""Channel 1 without rollouts: the clipped policy gradient of DAPO on stored traces.

Advantages compare traces of the same task; a trace without a comparison has advantage 0 and teaches nothing here. The
ratio is taken to the log-probabilities with which the tokens were sampled, so it holds for rollouts of an earlier
policy; traces of other models have none, and no advantage either.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor

from composer_replication.objective import GrpoSettings, OfEntry
from composer_replication.records import Trace

from ..models.states import last_hidden, output_head
from .examples import TraceExample


@dataclass
class StoredPolicy(OfEntry):
    Settings: ClassVar = GrpoSettings

    settings: GrpoSettings = field(default_factory=GrpoSettings)
    temperature: float = 1.0
    """At which the traces were sampled."""
    name: str = "policy"

    def loss(self, model: Any, batch: Mapping[str, Tensor]) -> Tensor:
        own_BT = batch["response_mask"][:, 1:].bool() & (batch["advantages"] != 0)[:, None]
        if not own_BT.any():
            return batch["rewards"].new_zeros(())
        hidden_NH = last_hidden(model, batch["input_ids"], batch["attention_mask"])[:, :-1][own_BT]
        logprobs_N = output_head(model).logprobs(hidden_NH, batch["input_ids"][:, 1:][own_BT], self.temperature)
        ratio_N = (logprobs_N - batch["behaviour_logps"][:, 1:][own_BT]).exp()
        advantage_N = batch["advantages"][:, None].expand_as(own_BT)[own_BT]
        clipped_N = ratio_N.clamp(1 - self.settings.clip_low, 1 + self.settings.clip_high)
        return -torch.minimum(ratio_N * advantage_N, clipped_N * advantage_N).mean()


def advantages(traces: Sequence[Trace]) -> list[float]:
    """Outcome less the mean of its task, in standard deviations; 0 for tasks tried once and for flat ones."""
    groups: dict[str, list[float]] = defaultdict(list)
    for trace in traces:
        if trace.task_id is not None and trace.outcome is not None:
            groups[trace.task_id].append(trace.outcome)
    return [group_advantage(trace.outcome, groups.get(trace.task_id or "", [])) for trace in traces]


def group_advantage(outcome: float | None, group: Sequence[float]) -> float:
    spread = statistics.stdev(group) if len(group) > 1 else 0.0
    return (outcome - statistics.fmean(group)) / (spread + 1e-4) if spread and outcome is not None else 0.0


def why_no_advantage(examples: Sequence[TraceExample]) -> str:
    """Empty where something can be learnt here."""
    if any(example.advantage for example in examples):
        return ""
    if not any(example.logprobs for example in examples):
        return (
            "channel 1 learns nothing: no attempt was sampled by this policy, and attempts of models behind an"
            " endpoint have no token ids; roll out with `recompose env rollout --model`"
        )
    return "no task was tried twice with different outcomes: channel 1 has no advantage to learn from"
