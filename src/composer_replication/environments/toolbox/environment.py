"""The toolbox as an `Environment`: tasks without end by number, an oracle, simulated teachers, logs and a leak."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from types import MappingProxyType
from typing import Literal, cast

from composer_replication.config import Config, ToolboxConfig, WarmupConfig
from composer_replication.records import Message, Trace, TraceState

from ..evidence import Sign
from ..protocol import (
    TRAIN,
    Environment,
    EnvironmentTask,
    Episode,
    EpisodeLimits,
    Judged,
    Log,
    Observed,
    SimulatedTeacher,
    Use,
)
from .episode import FINISH, MAX_TURNS, ToolboxEpisode, replay_history
from .leak import WAYS, Way, penalty, toolbox_signs
from .logs import old_logs
from .oracle import next_call, vocabulary
from .tasks import AGENT, Split, ToolboxTask, make_task, prompt_key, task_by_id, task_stream
from .teachers import SimulatedTeachers, teacher_names

FIRST_TASK: Mapping[Use, int] = {"training": 100_000_000, "ingestion": 200_000_000, "probe": 300_000_000}
"""Numbers of the training split, which the warm-up uses from 0. Held-out splits are measured from 0; experiments look
at 10,000 and above there."""
TASKS_PER_SEED = 1_000_000
MAX_OBSERVATION_TOKENS = 96


def open_toolbox(config: Config) -> ToolboxEnvironment:
    training = config.training
    return ToolboxEnvironment(
        config.toolbox,
        config.seed,
        leak_penalty=training.leak_penalty,
        leak_penalty_weight=training.leak_penalty_weight,
        leak_ways_known=training.leak_ways_known,
    )


class ToolboxEnvironment(Environment):
    name = AGENT
    heldout: Mapping[str, str] = MappingProxyType(
        {"heldout": "unseen tasks", "renames": "unseen tool names", "compositions": "unseen tool sequences"}
    )
    limits = EpisodeLimits(turns=MAX_TURNS, observation_tokens=MAX_OBSERVATION_TOKENS)

    def __init__(
        self,
        config: ToolboxConfig,
        seed: int = 0,
        *,
        leak_penalty: Literal["off", "soft", "hard"] = "off",
        leak_penalty_weight: float = 0.0,
        leak_ways_known: Sequence[Way] = (),
    ) -> None:
        self.config, self._seed = config, seed
        self._penalty: Literal["off", "soft", "hard"] = leak_penalty
        self._penalty_weight, self._ways_known = leak_penalty_weight, leak_ways_known
        self._known: dict[str, ToolboxTask] = {}
        """By prompt: tasks that were asked for by their id."""

    def tasks(self, split: str, use: Use = "training") -> Iterator[ToolboxTask]:
        if split == TRAIN:
            return task_stream(self.config, "train", FIRST_TASK[use] + self._seed * TASKS_PER_SEED)
        return (make_task(self.config, cast("Split", split), index) for index in range(TASKS_PER_SEED))

    def task(self, task_id: str) -> ToolboxTask:
        try:
            task = task_by_id(self.config, task_id)
        except ValueError as error:
            raise LookupError(task_id) from error
        self._known[prompt_key(task.messages)] = task
        return task

    def start(self, task: EnvironmentTask) -> ToolboxEpisode:
        return ToolboxEpisode(cast("ToolboxTask", task))

    def resume(self, task_id: str, history: Sequence[Message]) -> ToolboxEpisode:
        return replay_history(task_by_id(self.config, task_id), history)

    def judge(self, state: TraceState, turn: str) -> Judged | None:
        """Right is what leaves the same world, observation and end as the oracle's next move."""
        taken, reference = self._at(state), self._at(state)
        if taken is None or reference is None or taken.finished:
            return None
        accepted = not taken.step(turn).failed
        try:
            right = next_call(reference)
        except LookupError:
            return Judged(accepted, None)
        reference.step(right.render() if right else FINISH)
        return Judged(accepted, accepted and _left_behind(taken) == _left_behind(reference))

    def equivalent(self, state: TraceState, a: str, b: str) -> bool | None:
        """Whether both calls leave the same world behind and show the agent the same."""
        one, other = self._at(state), self._at(state)
        if one is None or other is None or one.finished:
            return None
        failed = one.step(a).failed, other.step(b).failed
        return failed[0] == failed[1] and _left_behind(one) == _left_behind(other)

    def _at(self, state: TraceState) -> ToolboxEpisode | None:
        task = self._known.get(prompt_key(state["messages"]))
        return replay_history(task, state["messages"]) if task else None

    def observe(self, episodes: Sequence[Episode], traces: Sequence[Trace]) -> Observed | None:
        """Where there is a leak: the truth, the alarms of the rules, and what they cost."""
        if self.config.leak == "none":
            return None
        hits = [set(cast("ToolboxEpisode", episode).canary_hits) for episode in episodes]
        signs = [list(self.signs(trace)) for trace in traces]
        metrics = {
            "monitor/canary_hit_rate": _share(hits),
            **{f"monitor/canary_hit_rate/{way}": _share([way in found for found in hits]) for way in WAYS},
            "leak/alarm_rate": _share(signs),
        }
        charges = [
            penalty(episode.reward, found, self._penalty, self._penalty_weight)
            for episode, found in zip(episodes, signs, strict=True)
        ]
        return Observed(charges, metrics)

    def signs(self, trace: Trace) -> Iterable[Sign]:
        return toolbox_signs(trace, self._ways_known)

    def simulated_teachers(
        self, traces: Iterable[Trace], error_rates: Sequence[float], seed: int
    ) -> AbstractContextManager[Sequence[SimulatedTeacher]] | None:
        own = [trace.task_id for trace in traces if trace.source.agent == AGENT and trace.task_id]
        return self._teachers([self.task(task_id) for task_id in own], error_rates, seed) if own else None

    def old_logs(self, config: WarmupConfig, seed: int) -> Iterator[Log]:
        return old_logs(self.config, config, seed)

    def vocabulary(self) -> Sequence[str]:
        return vocabulary(self.config)

    @contextmanager
    def _teachers(
        self, tasks: Sequence[ToolboxTask], error_rates: Sequence[float], seed: int
    ) -> Generator[Sequence[SimulatedTeacher]]:
        with SimulatedTeachers(tasks, error_rates, seed) as server:
            yield [SimulatedTeacher(name, server.base_url) for name in teacher_names(error_rates)]


def _left_behind(episode: ToolboxEpisode) -> tuple[object, ...]:
    return episode.world, episode.turns[-1].observation, episode.finished


def _share(values: Sequence[object]) -> float:
    return sum(map(bool, values)) / len(values)
