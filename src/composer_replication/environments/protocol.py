"""The one door between environments and everything that plays, trains on, measures or watches them.

    environment.tasks(split) ──▶ task ──environment.start(task)──▶ episode ──step(turn)──▶ answer … until finished

Pipeline, training, evaluation, pairs and monitor import this module and no environment by name. An environment of your
own subclasses `Environment`, gives `name`, `tasks`, `task` and `start`, and is chosen in the config by
`[environment] name = "package.module:factory"`. Everything else has a default that says "I cannot".
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from composer_replication.records import JsonObject, Message, Trace, TraceState

from .evidence import AttemptEvidence, Sign

if TYPE_CHECKING:
    from composer_replication.config import Config, WarmupConfig

Use = Literal["training", "ingestion", "probe", "evaluation"]
"""What tasks are asked for. An environment without end gives each use, and each seed, tasks of its own."""
TRAIN = "train"
"""The split that is trained on."""


class EnvironmentTask(Protocol):
    """One task. It belongs to one split for ever, by its id."""

    @property
    def task_id(self) -> str: ...

    @property
    def messages(self) -> Sequence[Message]:
        """The conversation that the first turn answers."""
        ...

    @property
    def labels(self) -> Mapping[str, str]:
        """What results are told apart by, such as `difficulty` or `repository`."""
        ...


class Answer(Protocol):
    """What a turn led to."""

    @property
    def observation(self) -> str | None:
        """What the policy reads next; None after it said that it is done."""
        ...

    @property
    def failed(self) -> bool:
        """Whether the turn was an error of the policy."""
        ...


class PlainAnswer(NamedTuple):
    """An `Answer` for environments that need no more of their own."""

    observation: str | None
    """What the policy reads next; None after it said that it is done."""
    failed: bool = False
    """Whether the turn was an error of the policy."""


class Episode(Protocol):
    """One attempt at one task. A malformed turn is answered like any other; only a broken environment raises."""

    @property
    def task(self) -> EnvironmentTask: ...

    @property
    def messages(self) -> Sequence[Message]:
        """The conversation that the first turn answers, the task's own as a rule."""
        ...

    @property
    def tools(self) -> Sequence[JsonObject]:
        """Tools that the policy may call, as OpenAI lists them; empty where turns are plain text."""
        ...

    @property
    def finished(self) -> bool:
        """Whether no further turn is wanted."""
        ...

    @property
    def reward(self) -> float:
        """1 is solved. It is read once, after the last step, in the thread of that step: it may be slow."""
        ...

    @property
    def evidence(self) -> AttemptEvidence | None:
        """What was left behind besides the conversation, for the monitor; None where nobody looked."""
        ...

    def step(self, turn: str) -> Answer | Awaitable[Answer]:
        """Take what the policy wrote, without its thoughts. May be a coroutine."""
        ...

    def trace(self, source_model: str, sample: int) -> Trace:
        """One `Turn` per step, failed ones with `is_error`, so that the detectors find them."""
        ...

    def close(self) -> None:
        """Nothing more is asked but the trace."""
        ...


FEWEST_TO_TELL = 5
"""Held-out tasks or sessions: of fewer an interval is shown to nobody, as it would look like knowledge."""


@dataclass(frozen=True)
class EpisodeLimits:
    """How far an episode can go, so that memory can be planned before it is played."""

    turns: int = 64
    """The most in one episode."""
    observation_tokens: int = 96
    """Of one answer, for planning; a longer one is read as long as it fits."""
    completion_tokens: int | None = None
    """Turns and answers of one episode together; None: as many as turns and answers can make."""
    concurrency: int = 0
    """Steps at a time, in threads or coroutines; 0 for environments that answer at once."""
    step_timeout_s: float | None = None
    """A step that takes longer ends its rollout, with the reward that the episode then has; needs `concurrency`."""

    def room(self, max_turn_tokens: int) -> int:
        """Tokens that an episode may add to its prompt."""
        return self.completion_tokens or self.turns * (max_turn_tokens + self.observation_tokens)


class Judged(NamedTuple):
    """What an environment says of a turn at a state."""

    accepted: bool
    """Whether it takes the turn without an error."""
    right: bool | None
    """Whether the turn is the right one; None where that is not known."""


class Observed(NamedTuple):
    """What the environment itself makes of the episodes of a step."""

    charges: Sequence[float]
    """To be added to the reward of each."""
    metrics: Mapping[str, float]
    """Logged as they are named."""


class SimulatedTeacher(NamedTuple):
    """`name` and address (`base_url`) of a noisy oracle behind a loopback server."""

    name: str
    base_url: str


class LoggedHint(NamedTuple):
    """What a hint that stood before a turn was about; the hint templates word it."""

    kind: str
    """Of error."""
    facts: Mapping[str, Any]
    """What its template asks for, by name."""


class LoggedTurn(NamedTuple):
    """A turn of an old conversation."""

    hint: LoggedHint | None
    """That stood before it, if one did."""
    text: str
    answer: str | None
    """What the agent read next."""


class Log(NamedTuple):
    """An old conversation to warm up on."""

    messages: Sequence[Message]
    turns: Sequence[LoggedTurn]


class Environment(Protocol):
    """Where the policy acts: the same object serves rollouts, training, evaluation, probe, votes and the monitor."""

    name: str
    """What reports and traces call it."""
    heldout: Mapping[str, str] = MappingProxyType({"heldout": "unseen tasks"})
    """Splits that are never trained on, and what people call them. The first one is the headline."""
    limits: EpisodeLimits = EpisodeLimits()
    left_out: Mapping[str, Sequence[str]] = MappingProxyType({})
    """Reason -> names of tasks that are not asked."""

    def tasks(self, split: str, use: Use = "training") -> Iterable[EnvironmentTask]:
        """A sequence, or an iterator without end; the same ones each time.

        Args:
            split: `train`, or a name of `heldout`.
            use: What they are asked for; an environment with a fixed list of tasks need not look at it.
        """
        ...

    def task(self, task_id: str) -> EnvironmentTask:
        """The task of a trace or of a run that goes on. Raises `LookupError` for a stranger."""
        ...

    def start(self, task: EnvironmentTask) -> Episode:
        """A fresh attempt."""
        ...

    def close(self) -> None:
        """Give back servers, processes and folders."""

    # What an environment may offer beyond playing. Each default says that it does not.

    def share_holding_out(self, number: int) -> float | None:
        """The smallest `heldout_share` with which `number` tasks are held out, where settings decide that."""
        return None

    def resume(self, task_id: str, history: Sequence[Message]) -> Episode | None:
        """The episode in the state that the messages of `history` have reached; None where it cannot go back."""
        return None

    def judge(self, state: TraceState, turn: str) -> Judged | None:
        """A turn at a state of a task that was handed out or asked for by its id."""
        return None

    def equivalent(self, state: TraceState, a: str, b: str) -> bool | None:
        """Whether the actions `a` and `b` have the same effect at such a state, for votes by execution."""
        return None

    def observe(self, episodes: Sequence[Episode], traces: Sequence[Trace]) -> Observed | None:
        """Charges and metrics of a step, from what only the environment knows."""
        return None

    def signs(self, trace: Trace) -> Iterable[Sign]:
        """Of reward hacks that only this environment's rules know."""
        return ()

    def simulated_teachers(
        self, traces: Iterable[Trace], error_rates: Sequence[float], seed: int
    ) -> AbstractContextManager[Sequence[SimulatedTeacher]] | None:
        """Noisy oracles behind a loopback server, one per entry of `error_rates`, the share of its answers that are
        wrong. They are labelled simulated wherever they appear."""
        return None

    def old_logs(self, config: WarmupConfig, seed: int) -> Iterator[Log] | None:
        """Conversations without end to warm a policy up on."""
        return None

    def vocabulary(self) -> Sequence[str] | None:
        """Texts that hold every word of a conversation here, for the built-in tiny model."""
        return None


Factory = Callable[["Config"], Environment]
"""What `[environment] name = "package.module:factory"` names."""
