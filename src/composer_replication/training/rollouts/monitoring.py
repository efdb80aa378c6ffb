"""The monitor inside training: every rollout is watched, what is found is kept, and hacks do not pay.

As a `watcher` of `EnvironmentRollouts` it watches rollouts and gives the column `monitor`; its
`monitor_penalty` is a reward function next to the unpenalised `episode_reward`, which stays logged by its own name.
Appends one line per rollout to `RUN/training/findings.jsonl` (`findings.<rank>.jsonl` of other processes) and logs
`monitor/*` through TRL. The column holds what hard evidence and the penalty decide and nothing else: what the auditor
says is logged and written down, and no reward function can reach it.

A masked rollout gets the mean reward of the others of its group: its advantage is 0 but for rounding, and theirs keep
their mean. For that a group must lie within one process. A rollout that the monitor fails on counts as clean and in
`monitor/failed_rate`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from transformers import TrainerCallback

from composer_replication.config import MonitorConfig
from composer_replication.environments.evidence import AttemptEvidence, Sign
from composer_replication.monitor.judge import Judgement, conduct_of, has_canary_hit, judge
from composer_replication.monitor.penalty import Penalty
from composer_replication.records import Trace

from ..metrics import StepLines
from .worker import Rollout

COLUMN = "monitor"
EnvironmentSigns = Callable[[Trace], Iterable[Sign]]


class Consequence(NamedTuple):
    """All that a reward function learns of what the monitor saw."""

    charge: float = 0.0
    """To be added to the reward: 0 or less."""
    masked: bool = False
    """Whether nothing may be learnt from this rollout."""


class WatchedRollout(NamedTuple):
    rollout: Rollout[Any]
    trace: Trace
    watch: Judgement | None
    """None where the monitor itself failed."""
    failure: str = ""

    @property
    def canary_hit(self) -> bool:
        """By the environment's own account where it gives one: what the monitor thinks has no part in it."""
        hits = getattr(self.rollout.episode, "canary_hits", None)
        if hits is None:
            return has_canary_hit(evidence_of(self.rollout.episode))
        return any(getattr(hit, "evidence", "hard") == "hard" for hit in hits)


class RolloutMonitor(TrainerCallback):
    """One per process. As a callback it only forgets what a resumed run will watch again."""

    def __init__(
        self,
        folder: Path,
        config: MonitorConfig,
        *,
        group_size: int,
        rank: int = 0,
        signs: EnvironmentSigns | None = None,
        reward_columns: Sequence[str] = ("episode_reward",),
    ) -> None:
        """Each `group_size` rollouts in a row are compared with each other. `signs` are rules of the environment's own;
        `reward_columns` are all that add up to a rollout's reward."""
        self._group_size = group_size
        self._penalty = None if config.mode == "watch" else Penalty.load(config.mode)
        self._signs, self._reward_columns = signs, tuple(reward_columns)
        self._lines = StepLines(folder / (f"findings.{rank}.jsonl" if rank else "findings.jsonl"))
        self._latest: Mapping[str, float] = {}

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._lines.begin(state.global_step)

    def __call__(
        self, rollouts: Sequence[Rollout[Any]], traces: Sequence[Trace], step: int
    ) -> dict[str, list[Consequence]]:
        seen = [self._look(rollout, trace) for rollout, trace in zip(rollouts, traces, strict=True)]
        for each in seen:
            self._lines.append({"step": step, **line_of(each)})
        self._latest = metrics_of(seen)
        return {COLUMN: [self._consequence(each.rollout.reward, each.watch) for each in seen]}

    def monitor_penalty(
        self,
        monitor: Sequence[Consequence],
        log_metric: Callable[[str, float], None],
        **columns: Any,
    ) -> list[float]:
        """What to add to each rollout's reward. Only logs where the mode is `watch`."""
        for name, value in self._latest.items():
            log_metric(f"monitor/{name}", value)
        if not any(each.masked for each in monitor):
            return [each.charge for each in monitor]
        rewards = [sum(row) for row in zip(*(columns[name] for name in self._reward_columns), strict=True)]
        return masking(rewards, [each.masked for each in monitor], self._group_size)

    def _look(self, rollout: Rollout[Any], trace: Trace) -> WatchedRollout:
        try:
            conduct = conduct_of(trace, evidence_of(rollout.episode))
            return WatchedRollout(rollout, trace, judge(conduct, more_signs=self._signs(trace) if self._signs else ()))
        except Exception as error:
            return WatchedRollout(rollout, trace, None, f"{type(error).__name__}: {error}")

    def _consequence(self, reward: float, seen: Judgement | None) -> Consequence:
        if self._penalty is None or seen is None:
            return Consequence()
        return Consequence(self._penalty.charge(reward, seen), self._penalty.drops(seen))


def evidence_of(episode: Any) -> AttemptEvidence | None:
    """Of an episode that carries it, or whose session does; a stopped session has it, one that broke has none."""
    own = getattr(episode, "evidence", None)
    return own if own is not None else getattr(getattr(episode, "session", None), "evidence", None)


def masking(rewards: Sequence[float], masked: Sequence[bool], group_size: int) -> list[float]:
    """What makes the reward of each masked rollout the mean of the others of its group. Not of its prompt: a step may
    have several groups of one task."""
    added = [0.0] * len(rewards)
    every = range(len(rewards))
    for rows in (every[start : start + group_size] for start in every[::group_size]):
        kept = [rewards[row] for row in rows if not masked[row]]
        middle = fmean(kept) if kept else 0.0
        for row in rows:
            added[row] = middle - rewards[row] if masked[row] else 0.0
    return added


def metrics_of(seen: Sequence[WatchedRollout]) -> dict[str, float]:
    watches = [each.watch for each in seen if each.watch]
    found = {
        "canary_hit_rate": fmean(each.canary_hit for each in seen),
        "failed_rate": fmean(each.watch is None for each in seen),
    }
    if watches:
        found["hard_rate"] = fmean(each.hard for each in watches)
        found["alarm_rate"] = fmean(each.alarm for each in watches)
    chances = [each.p for each in watches if each.p is not None]
    audits = [each.auditor_p for each in watches if each.auditor_p is not None]
    if chances:
        found["p"] = fmean(chances)
    if audits:
        found["auditor_p"] = fmean(audits)
        found["disagreement"] = fmean(each.auditor_alarm != each.alarm for each in watches)
    return found


def line_of(seen: WatchedRollout) -> dict[str, Any]:
    line: dict[str, Any] = {
        "trace_id": seen.trace.trace_id,
        "task_id": seen.trace.task_id,
        "reward": seen.rollout.reward,
        "canary_hit": seen.canary_hit,
    }
    if seen.watch is None:
        return {**line, "failure": seen.failure}
    left_out = {"schema_version", "trace_id"}
    return {
        **line,
        "hard": seen.watch.hard,
        "alarm": seen.watch.alarm,
        "p": seen.watch.p,
        "auditor_p": seen.watch.auditor_p,
        "findings": [finding.model_dump(exclude=left_out) for finding in seen.watch.findings],
    }
