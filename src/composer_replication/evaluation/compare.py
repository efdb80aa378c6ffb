"""Success of two policies on the same held-out tasks: pass@1, pass@k, and by what the environment tells tasks apart by.

A task is passed with the full reward. With one sample an episode is greedy; with several it is sampled as in training.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from statistics import fmean
from typing import TYPE_CHECKING, Literal, get_args

from pydantic import Field

from composer_replication.config import Config
from composer_replication.environments.protocol import FEWEST_TO_TELL, Environment, EnvironmentTask, Episode
from composer_replication.progress import Progress
from composer_replication.records import ErrorKind, StoredRecord
from composer_replication.sites import find_sites

from .metrics import pass_at_k
from .report import ComparisonRow
from .resampling import bootstrap
from .stats import Estimate, mean_interval, paired_difference

if TYPE_CHECKING:
    from composer_replication.training.models.loading import Policy
    from composer_replication.training.rollouts.worker import Rollout

Phase = Literal["before", "after"]
PHASES: tuple[Phase, ...] = get_args(Phase)
MEASURING_SEED = 7
REPOSITORY = "repository"
"""The label of tasks that are alike."""
FOR_THE_CURRICULUM = ("family", "rung")
"""Labels that say which tasks belong together, too fine for rows."""


class TaskOutcome(StoredRecord):
    """One episode of one policy."""

    task_id: str
    split: str
    phase: Phase
    reward: float
    turns: int
    errors: tuple[ErrorKind, ...]
    sample: int = 0
    labels: dict[str, str] = Field(default_factory=dict[str, str])


def held_out_tasks(environment: Environment, config: Config, split: str) -> list[EnvironmentTask]:
    return list(islice(environment.tasks(split, "evaluation"), config.evaluation.tasks))


def evaluate_policy(
    policy: Policy, config: Config, environment: Environment, phase: Phase, split: str, progress: Progress
) -> list[TaskOutcome]:
    """Episodes on one held-out split. The tasks depend on the environment's settings alone, not on the seed."""
    import torch

    from composer_replication.training.rollouts.playing import play_tasks

    tasks, samples = held_out_tasks(environment, config, split), config.evaluation.samples
    rollouts = play_tasks(
        policy,
        environment,
        config,
        [task for task in tasks for _ in range(samples)],
        temperature=config.training.temperature if samples > 1 else 0.0,
        generator=torch.Generator(device=policy.model.device).manual_seed(MEASURING_SEED) if samples > 1 else None,
        progress=progress,
    )
    return [_outcome(rollout, policy.name, split, phase, row % samples) for row, rollout in enumerate(rollouts)]


def _outcome(rollout: Rollout[Episode], name: str, split: str, phase: Phase, sample: int) -> TaskOutcome:
    trace, task = rollout.trace(name, sample), rollout.episode.task
    return TaskOutcome(
        task_id=task.task_id,
        split=split,
        phase=phase,
        reward=rollout.reward,
        turns=len(trace.turns),
        errors=tuple(site.error_kind for site in find_sites(trace) if site.fault == "policy"),
        sample=sample,
        labels=dict(task.labels),
    )


def compare(outcomes: Sequence[TaskOutcome], names: Mapping[str, str]) -> list[ComparisonRow]:
    """Paired by task: a row per split, in the order in which they were run, then its finer rows. The first is the
    headline."""
    rows: list[ComparisonRow] = []
    for split in dict.fromkeys(outcome.split for outcome in outcomes):
        own = [outcome for outcome in outcomes if outcome.split == split]
        name = names.get(split, split)
        rows.append(_row(own, split, name, _passed).model_copy(update={"headline": not rows}))
        rows += _finer_rows(own, split, name)
    return rows


def _finer_rows(outcomes: Sequence[TaskOutcome], split: str, name: str) -> Iterator[ComparisonRow]:
    samples = 1 + max(outcome.sample for outcome in outcomes)
    if samples > 1:
        yield _row(outcomes, f"{split}, pass@{samples}", f"{name}, pass@{samples}", _passed_once)
    if any(outcome.reward not in (0.0, 1.0) for outcome in outcomes):
        yield _row(outcomes, f"{split}, mean reward", f"{name}, mean reward", fmean)
    for label, own in _labelled(outcomes)[0].items():
        yield _row(own, f"{split}, {label}", f"{name}, {label}", _passed)


def rows_left_out(outcomes: Sequence[TaskOutcome]) -> int:
    """Labels without a row of their own in `compare`: of too few tasks, or of the tasks of another row."""
    splits = dict.fromkeys(outcome.split for outcome in outcomes)
    return sum(_labelled([outcome for outcome in outcomes if outcome.split == split])[1] for split in splits)


def repositories_of(outcomes: Sequence[TaskOutcome]) -> int:
    """That the headline's tasks are of; 0 where one does not tell."""
    found = {outcome.labels.get(REPOSITORY) for outcome in outcomes if outcome.split == outcomes[0].split}
    return 0 if None in found else len(found)


def _labelled(outcomes: Sequence[TaskOutcome]) -> tuple[dict[str, list[TaskOutcome]], int]:
    """Those of each label that tells something of its own, and the number of other labels."""
    groups: dict[tuple[str, str], list[TaskOutcome]] = defaultdict(list)
    for outcome in outcomes:
        for label in outcome.labels.items():
            if label[0] not in FOR_THE_CURRICULUM:
                groups[label].append(outcome)
    told: dict[frozenset[str], tuple[str, list[TaskOutcome]]] = {}
    parts = {label: own for label, own in sorted(groups.items()) if len(own) < len(outcomes)}
    for (label, value), own in parts.items():
        tasks = frozenset(outcome.task_id for outcome in own)
        if len(tasks) >= FEWEST_TO_TELL:
            told.setdefault(tasks, (f"{label} {value}", own))
    return dict(told.values()), len(parts) - len(told)


def _row(
    outcomes: Sequence[TaskOutcome], split: str, label: str, measure: Callable[[Sequence[float]], float]
) -> ComparisonRow:
    rewards: dict[str, dict[str, list[float]]] = {phase: defaultdict(list) for phase in PHASES}
    repositories: dict[str, str | None] = {}
    for outcome in outcomes:
        rewards[outcome.phase][outcome.task_id].append(outcome.reward)
        repositories[outcome.task_id] = outcome.labels.get(REPOSITORY)
    tasks = list(rewards["before"])
    before, after = ([measure(rewards[phase][task]) for task in tasks] for phase in PHASES)
    return ComparisonRow(
        split=split,
        label=label,
        before=mean_interval(before),
        after=mean_interval(after),
        difference=difference_of(before, after, [repositories[task] for task in tasks]),
    )


def difference_of(before: Sequence[float], after: Sequence[float], repositories: Sequence[str | None]) -> Estimate:
    """Over tasks, each with its repository. Where there are enough of these, whole ones are drawn; with fewer the
    interval is about these alone."""
    if None in repositories or len(set(repositories)) < FEWEST_TO_TELL:
        return paired_difference(before, after)
    changes = [y - x for x, y in zip(before, after, strict=True)]
    return bootstrap(changes, repositories, expanded=True).model_copy(update={"n": len(changes)})


def _passed(rewards: Sequence[float]) -> float:
    """pass@1, over all samples of the task."""
    return fmean(reward >= 1 for reward in rewards)


def _passed_once(rewards: Sequence[float]) -> float:
    """pass@k with k the number of samples."""
    return pass_at_k(sum(reward >= 1 for reward in rewards), len(rewards), len(rewards))


def error_kinds(outcomes: Sequence[TaskOutcome], split: str, phase: Phase) -> tuple[dict[str, int], int]:
    """Errors by kind, and the number of turns they came from."""
    chosen = [outcome for outcome in outcomes if outcome.split == split and outcome.phase == phase]
    kinds: Counter[str] = Counter(kind for outcome in chosen for kind in outcome.errors)
    return dict(kinds.most_common()), sum(outcome.turns for outcome in chosen)
