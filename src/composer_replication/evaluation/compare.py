"""Success of two policies on the same held-out tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, get_args

from composer_replication.config import Config, HeldoutSplit
from composer_replication.environments.toolbox import make_task
from composer_replication.records import ErrorKind, StoredRecord

from .report import ComparisonRow
from .stats import mean_interval, paired_difference

if TYPE_CHECKING:
    from composer_replication.training.models.loading import Policy

Phase = Literal["before", "after"]
PHASES: tuple[Phase, ...] = get_args(Phase)


class TaskOutcome(StoredRecord):
    """One greedy episode of one policy."""

    task_id: str
    split: str
    phase: Phase
    reward: float
    turns: int
    errors: tuple[ErrorKind, ...]


SPLIT_LABELS: dict[str, str] = {
    "heldout": "unseen tasks",
    "renames": "unseen tool names",
    "compositions": "unseen tool sequences",
}


def evaluate_policy(policy: Policy, config: Config, phase: Phase, split: HeldoutSplit) -> list[TaskOutcome]:
    """Greedy episodes on one held-out split. The tasks depend on the toolbox settings alone, not on the seed."""
    from composer_replication.training.rollouts.toolbox import roll_out

    tasks = [make_task(config.toolbox, split, index) for index in range(config.evaluation.tasks)]
    rollouts = roll_out(
        policy.model, policy.tokens, tasks, max_turn_tokens=config.training.max_turn_tokens, temperature=0.0
    )
    return [
        TaskOutcome(
            task_id=episode.task.task_id,
            split=split,
            phase=phase,
            reward=episode.reward,
            turns=len(episode.turns),
            errors=tuple(turn.error.kind for turn in episode.turns if turn.error),
        )
        for episode in (rollout.episode for rollout in rollouts)
    ]


def compare(outcomes: Sequence[TaskOutcome]) -> list[ComparisonRow]:
    """Paired by task, one comparison per split, in the order in which the splits were run."""
    comparisons: list[ComparisonRow] = []
    for split in dict.fromkeys(outcome.split for outcome in outcomes):
        rewards: dict[str, dict[str, float]] = {"before": {}, "after": {}}
        for outcome in outcomes:
            if outcome.split == split:
                rewards[outcome.phase][outcome.task_id] = outcome.reward
        tasks = list(rewards["before"])
        before, after = ([rewards[phase][task] for task in tasks] for phase in ("before", "after"))
        comparisons.append(
            ComparisonRow(
                split=split,
                label=SPLIT_LABELS[split],
                headline=not comparisons,
                before=mean_interval(before),
                after=mean_interval(after),
                difference=paired_difference(before, after),
            )
        )
    return comparisons


def error_kinds(outcomes: Sequence[TaskOutcome], split: str, phase: Phase) -> tuple[dict[str, int], int]:
    """Errors by kind, and the number of turns they came from."""
    chosen = [outcome for outcome in outcomes if outcome.split == split and outcome.phase == phase]
    kinds: Counter[str] = Counter(kind for outcome in chosen for kind in outcome.errors)
    return dict(kinds.most_common()), sum(outcome.turns for outcome in chosen)
