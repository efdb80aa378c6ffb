"""What environments of others share here: turns as text, one record per turn, splits by hash, rewards in [0, 1].

A turn may hold several tool calls, each one JSON object between marks; they run in order. A turn that cannot be read is
answered like any other, is marked as an error and keeps its place. Reads and writes no files.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from composer_replication.errors import RecomposeError, UsageError
from composer_replication.records import JsonObject, Message, ToolCall, Trace

from ..calls import OPEN, without_thought
from ..code.episodes.tools import ToolError
from ..code.episodes.transcript import Transcript, answer
from ..code.episodes.turns import Reply, as_text, named_calls, read_calls
from ..evidence import AttemptEvidence
from ..protocol import TRAIN, Environment, EnvironmentTask, EpisodeLimits, PlainAnswer, Use
from ..untrusted import encodable

if TYPE_CHECKING:
    from composer_replication.config import Config, EnvironmentConfig

HELDOUT = "heldout"


class ForeignTask(ABC):
    """`split` is where it belongs for ever. What it begins with may cost a look at the environment: one, when asked."""

    def __init__(self, task_id: str, split: str, labels: Mapping[str, str]) -> None:
        self.task_id, self.split, self.labels = task_id, split, labels
        self._opening: Sequence[Message] | None = None

    @property
    def messages(self) -> Sequence[Message]:
        if self._opening is None:
            self._opening = tuple(self._look())
        return self._opening

    @abstractmethod
    def _look(self) -> Sequence[Message]: ...


TaskT = TypeVar("TaskT", bound=ForeignTask)


class ForeignEnvironment(Environment, ABC, Generic[TaskT]):
    """Over a list of tasks that is known when it is opened."""

    settings: ClassVar[Sequence[str]]
    """What `[environment.settings]` may hold besides `reward_range`."""

    def __init__(self, config: Config) -> None:
        settings = config.environment
        check_settings(settings.settings, (*self.settings, "reward_range"))
        self.rewards = reward_range(settings.settings)
        self._heldout_share = settings.heldout_share
        self._tasks = {task.task_id: task for task in self._open(settings)}
        others = sorted({task.split for task in self._tasks.values()} - {TRAIN})
        self.heldout = {name: f"tasks of the split {name}" for name in others} or {HELDOUT: "unseen tasks"}
        self.limits = EpisodeLimits(
            turns=settings.max_steps,
            completion_tokens=settings.completion_tokens,
            concurrency=settings.concurrency,
            step_timeout_s=settings.step_timeout_s,
        )

    def tasks(self, split: str, use: Use = "training") -> Sequence[TaskT]:
        return [task for task in self._tasks.values() if task.split == split]

    def task(self, task_id: str) -> TaskT:
        return self._tasks[task_id]

    def start(self, task: EnvironmentTask) -> ForeignEpisode:
        return self._begin(self._tasks[task.task_id])

    def resume(self, task_id: str, history: Sequence[Message]) -> ForeignEpisode | None:
        """By playing the same turns again. None where the environment did not answer them as before."""
        episode = self.start(self.task(task_id))
        for message in history[len(episode.messages) :]:
            if message["role"] == "assistant" and not episode.finished:
                episode.step(as_text(message))
        if episode.transcript.messages == list(history):
            return episode
        episode.close()
        return None

    @abstractmethod
    def _open(self, section: EnvironmentConfig) -> Iterable[TaskT]:
        """Called once, before anything else."""

    @abstractmethod
    def _begin(self, task: TaskT) -> ForeignEpisode: ...

    def _split_of(self, task_id: str) -> str:
        """By the id alone, so that a task never changes sides."""
        place = int.from_bytes(hashlib.sha256(task_id.encode()).digest()[:8]) / 2**64
        return HELDOUT if place < self._heldout_share else TRAIN


class ForeignEpisode(ABC):
    """Subclasses say how a turn is acted on. Safe to close twice."""

    agent: ClassVar[str]

    def __init__(self, world: ForeignEnvironment[Any], task: EnvironmentTask, tools: Sequence[JsonObject]) -> None:
        self.task, self.tools = task, tuple(tools)
        self.messages: Sequence[Message] = tuple(task.messages)
        self.finished = False
        self.transcript = Transcript(self.agent, task.task_id, self.messages, self.tools)
        self._max_steps, self._rewards = world.limits.turns, world.rewards

    @property
    @abstractmethod
    def reward(self) -> float: ...

    @property
    def evidence(self) -> AttemptEvidence | None:
        return None

    @abstractmethod
    def close(self) -> None: ...

    @abstractmethod
    def _act(self, reply: Reply) -> list[Message]:
        """What comes back, one message per call where there are calls. Raises `ToolError` for a turn of no use."""

    def _refuse(self, text: str, error: ToolError) -> list[Message]:
        """What is answered to a turn that was not acted on."""
        return [answer(str(error), None, failed=True)]

    def step(self, turn: str) -> PlainAnswer:
        if self.finished:
            raise RuntimeError(f"the episode of {self.task.task_id} has ended")
        text = encodable(without_thought(turn))
        reply = Reply(text)
        try:
            if self.tools and OPEN in text:
                reply = read_calls(text)
            answers = self._act(reply)
        except ToolError as error:
            reply, answers = Reply(text), self._refuse(text, error)
        self.transcript.add(reply.text, self._made(reply), answers)
        self.finished = self.finished or self.transcript.turns >= self._max_steps
        failed = any(answer.get("is_error") for answer in answers)
        return PlainAnswer("\n".join(answer["content"] for answer in answers) if answers else None, failed)

    def trace(self, source_model: str, sample: int) -> Trace:
        return self.transcript.trace(source_model, sample, self.reward)

    def _made(self, reply: Reply) -> list[ToolCall]:
        """The calls of the turn that is being taken, under their names in the trace."""
        return named_calls(reply.calls, self.transcript)

    def _scaled(self, reward: float) -> float:
        """From the environment's own range to [0, 1]."""
        return in_range(reward, self._rewards)


def check_settings(settings: Mapping[str, object], known: Sequence[str]) -> None:
    if unknown := sorted(set(settings) - set(known)):
        raise UsageError(f"[environment.settings] has no {', '.join(unknown)}", f"there are {', '.join(known)}")


def reward_range(settings: Mapping[str, object]) -> tuple[float, float]:
    match settings.get("reward_range", (0.0, 1.0)):
        case [int() | float() as least, int() | float() as most] if least < most:
            return float(least), float(most)
        case other:
            raise UsageError(f"reward_range = {other} is no range", "reward_range = [0.0, 1.0]")


def in_range(reward: float, limits: tuple[float, float]) -> float:
    """From the environment's own range to [0, 1]. One outside of it means that the range is not the environment's."""
    least, most = limits
    if not least <= reward <= most:
        raise RecomposeError(
            f"the environment gave the reward {reward:g}, outside of [{least:g}, {most:g}]",
            "set reward_range under [environment.settings]",
        )
    return (reward - least) / (most - least)
