"""Rollouts of many environments at once: turns are sampled in batches while other environments still work.

    ready ──sample──▶ in its environment ──answer──▶ ready … until the environment has finished

A sampler that writes one turn at a time, such as a server, gets a coroutine per episode: none waits for another's turn.
A rollout keeps the ids that were sampled; nothing is tokenised again later, so a trained position is always the one
that was sampled. With inline steps the order of everything is fixed, and a generator decides the whole result.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from inspect import iscoroutinefunction
from itertools import count
from typing import Any, Generic, NamedTuple, TypeVar, cast

import torch

from composer_replication.environments.protocol import Episode
from composer_replication.environments.self_played import NoTurn, SelfPlaying, TokenSegment
from composer_replication.errors import UsageError
from composer_replication.records import Trace

from ..lessons.online_sites import Rolled
from ..models.tokens import ChatTokens
from ..stored.records import TokenizedTrace
from .environment_steps import (
    ConcurrentSteps,
    FreeSteps,
    InlineSteps,
    StepFailure,
    StepOutcome,
    Steps,
    in_thread,
    played,
)
from .plain_traces import PlainTurn, plain_trace, with_turns
from .sampling import FreeSampler, SampledTurn, TurnSampler
from .self_played import Sample, TurnDesk, Versions, longest, one_segment, rows_of, writer

E = TypeVar("E", bound=Episode)
MAX_SEED = 2**31 - 1


class TurnRecord(NamedTuple):
    """One turn as its environment got it, without thoughts."""

    text: str
    observation: str | None
    """What the environment answered."""
    failure: StepFailure | None
    """How the environment broke at this turn, if it did."""
    seconds: float
    """Inside the environment."""
    failed: bool = False
    """Whether the environment called it an error of the policy."""


@dataclass
class Rollout(Generic[E]):
    """One episode as it was played, with the ids that were sampled and read."""

    episode: E
    """As the environment's `start` made it."""
    prompt_ids: list[int]
    """What stood there before the first turn."""
    completion_ids: list[int] = field(default_factory=list[int])
    """Sampled turns, and what the environment answered between them."""
    logprobs: list[float] = field(default_factory=list[float])
    """One for each of `completion_ids`; 0 where the environment wrote the token."""
    turn_spans: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    """Where in `completion_ids` each turn begins and ends."""
    turns: list[TurnRecord] = field(default_factory=list[TurnRecord])
    versions: list[int] = field(default_factory=list[int])
    """Of the weights that wrote each turn."""
    truncated: bool = False
    """Whether it was stopped at the end of a turn because another one might not have fitted."""
    settled_reward: float | None = None
    """None until the episode has ended; `reward` is what to read."""
    segments: Sequence[TokenSegment] = ()
    """Of an episode that played itself. The ids above are then those of the longest one."""

    without_a_turn: str = ""
    """Why an episode that plays itself got none, unless there was no room for one."""

    @property
    def reward(self) -> float:
        """The episode's; 0 where its environment broke."""
        return self.episode.reward if self.settled_reward is None else self.settled_reward

    @property
    def failure(self) -> StepFailure | None:
        """How the environment broke, if it did."""
        return self.turns[-1].failure if self.turns else None

    @property
    def broken(self) -> bool:
        """Whether the environment raised; a step that took too long may be the policy's doing."""
        return self.failure is not None and self.failure.kind == "runtime_error"

    @property
    def context_ids(self) -> list[int]:
        """Prompt and completion."""
        return self.prompt_ids + self.completion_ids

    @property
    def sampled_mask(self) -> list[int]:
        """1 where the policy sampled the token, 0 where the environment wrote it."""
        mask = [0] * len(self.completion_ids)
        for start, end in self.turn_spans:
            mask[start:end] = [1] * (end - start)
        return mask

    def take(self, turn: SampledTurn) -> None:
        """Add a turn of the policy."""
        begin = len(self.completion_ids)
        self.completion_ids += turn.ids
        self.logprobs += turn.logprobs
        self.turn_spans.append((begin, len(self.completion_ids)))
        self.versions.append(turn.version)

    def read(self, answer_ids: Sequence[int]) -> None:
        """Add what the environment answered."""
        self.completion_ids += answer_ids
        self.logprobs += [0.0] * len(answer_ids)

    def stored(self, trace_id: str, tokenizer: str) -> list[TokenizedTrace]:
        """One row; of an episode that played itself one for each segment, and none where it broke."""
        if isinstance(self.episode, SelfPlaying):
            return rows_of(self.segments, trace_id, tokenizer, self.reward)
        offset = len(self.prompt_ids)
        row = TokenizedTrace(
            trace_id=trace_id,
            tokenizer=tokenizer,
            ids=tuple(self.context_ids),
            turn_spans=tuple((start + offset, end + offset) for start, end in self.turn_spans),
            logprobs=(0.0,) * offset + tuple(self.logprobs),
            reward=self.reward,
        )
        return [row]

    def settle(self, reward: float, seconds: float, versions: Versions) -> None:
        """For an episode that has played itself."""
        assert isinstance(self.episode, SelfPlaying)
        self.segments, self.settled_reward = self.episode.segments, reward
        row = self.segments[longest(self.segments)]
        first = row.turn_spans[0][0]
        self.prompt_ids, self.completion_ids = row.ids[:first], row.ids[first:]
        self.logprobs = row.logprobs[first:]
        self.turn_spans = [(start - first, end - first) for start, end in row.turn_spans]
        self.versions = [versions.get((start, tuple(row.ids[start:end])), 0) for start, end in row.turn_spans]
        trace = self.row_trace("policy", 0)
        for turn in trace.turns:
            said, *answers = trace.messages[turn.start : turn.end]
            failed = any(answer.get("is_error") for answer in answers)
            heard = "\n".join(answer["content"] for answer in answers) if answers else None
            self.turns.append(TurnRecord(said["content"], heard, None, seconds / len(trace.turns), failed))

    def rolled(self, trace: Trace) -> Rolled:
        """As sites are found in it; `trace` is its `row_trace`."""
        ids = self.prompt_ids, self.completion_ids, self.sampled_mask
        return Rolled(trace, *ids, tuple(self.versions), tuple(self.logprobs), self.broken)

    def row_trace(self, source_model: str, sample: int) -> Trace:
        """What the ids of this rollout show: the whole trace, or its longest segment."""
        trace = self.trace(source_model, sample)
        return one_segment(trace, self.segments[longest(self.segments)].turns) if len(self.segments) > 1 else trace

    def trace(self, source_model: str, sample: int) -> Trace:
        """The environment's own trace. A turn that it could not finish is put at the end with its error."""
        if not self.failure:
            return self.episode.trace(source_model, sample)
        plain = [
            PlainTurn(turn.text, turn.failure.message if turn.failure else turn.observation, turn.failure is not None)
            for turn in self.turns
        ]
        before = len(plain) - 1
        try:
            own = self.episode.trace(source_model, sample)
        except Exception:
            own = None
        if own is None or len(own.turns) < before:
            trace = plain_trace(self.episode.messages, plain, source_model, sample)
        else:
            end = own.turns[before].start if len(own.turns) > before else len(own.messages)
            kept = own.model_copy(update={"messages": own.messages[:end], "turns": own.turns[:before]})
            trace = with_turns(kept, plain[before:], source_model)
        return trace.model_copy(update={"outcome": self.reward})


@dataclass(frozen=True)
class RolloutSettings:
    max_turn_tokens: int
    temperature: float
    max_completion_tokens: int | None = None
    max_turns: int = 64
    max_concurrency: int = 0
    """Environment steps at a time; 0 runs them inline, which is best for environments that answer at once."""
    patience_s: float = 0.1
    """How long rollouts that are ready wait for others, so that batches stay big."""
    step_timeout_s: float | None = None

    def __post_init__(self) -> None:
        if self.step_timeout_s is not None and not self.max_concurrency:
            raise UsageError("a step that runs inline cannot time out", "set max_concurrency to 1 or more")
        if self.max_completion_tokens is not None and self.max_completion_tokens < self.max_turn_tokens:
            raise UsageError("no turn fits into max_completion_tokens", "raise it to max_turn_tokens or more")


class RolloutWorker:
    """Plays episodes to their end. Results come in the order of the episodes, one for each, whatever went wrong."""

    def __init__(
        self,
        sampler: TurnSampler | FreeSampler,
        tokens: ChatTokens,
        settings: RolloutSettings,
        on_settled: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_settled` is called at the end of each episode, maybe in another thread."""
        self.sampler, self.tokens, self.settings, self._on_settled = sampler, tokens, settings, on_settled
        self.sampling_s = self.total_s = 0.0
        """Of the last `run`. Sampling is that of all episodes together, each of which may wait for its own turn."""
        self.environment_share = 0.0
        """Of the time of the last `run`, what was spent waiting for environments while nothing was written."""
        self._playing: Sequence[Rollout[Any]] = ()

    def phase(self) -> str:
        """What `run` is at, for a person; may be asked from another thread."""
        playing = self._playing
        unsettled = [rollout for rollout in playing if rollout.settled_reward is None]
        if any(isinstance(rollout.episode, SelfPlaying) for rollout in unsettled):
            return f"playing {len(unsettled)} of {len(playing)} rollouts"
        writing = [one for one in unsettled if len(one.turns) == len(one.turn_spans) and not one.truncated]
        if writing:
            turn = min(len(rollout.turns) for rollout in writing) + 1
            # Servers and the samplers of a GPU do not tell it.
            token = getattr(self.sampler, "token", None)
            told = "" if token is None else f", token {token} of {self.settings.max_turn_tokens}"
            return f"sampling turn {turn} of {self.settings.max_turns} of {len(writing)} rollouts{told}"
        return f"running and grading {len(unsettled)} of {len(playing)} rollouts" if unsettled else "reading rollouts"

    def run(self, episodes: Sequence[E], generator: torch.Generator | None = None) -> list[Rollout[E]]:
        rollouts = [Rollout(episode, self.tokens.prompt(episode.messages)) for episode in episodes]
        self.check(rollouts)
        self._playing = rollouts
        started, self.sampling_s = time.monotonic(), 0.0
        if hasattr(self.sampler, "write"):
            asyncio.run(self._play_freely(cast(FreeSampler, self.sampler), rollouts, generator))
            playing_s = self.sampling_s + sum(turn.seconds for rollout in rollouts for turn in rollout.turns)
        else:
            self._play_in_batches(cast(TurnSampler, self.sampler), rollouts, generator)
            playing_s = time.monotonic() - started
        self.total_s = time.monotonic() - started
        self.environment_share = 1 - self.sampling_s / playing_s if playing_s else 0.0
        alone = [rollout for rollout in rollouts if isinstance(rollout.episode, SelfPlaying)]
        if alone and all(rollout.without_a_turn for rollout in alone):
            raise UsageError(alone[0].without_a_turn, "run it by hand first, with its own provider")
        return rollouts

    # A coroutine per episode

    async def _play_freely(
        self, sampler: FreeSampler, rollouts: list[Rollout[E]], generator: torch.Generator | None
    ) -> None:
        steps = FreeSteps(self.settings.max_concurrency, self.settings.step_timeout_s)
        seeds = seeds_of(len(rollouts), generator)
        try:
            async with sampler.connected(), asyncio.TaskGroup() as group:
                for rollout, seed in zip(rollouts, seeds, strict=True):
                    group.create_task(self.play(sampler, rollout, steps, seed))
        except ExceptionGroup as several:
            raise several.exceptions[0] from several

    async def play(
        self,
        sampler: FreeSampler,
        rollout: Rollout[E],
        steps: FreeSteps,
        seed: int,
        on_progress: Callable[[], None] = lambda: None,
    ) -> None:
        """One episode to its end. What is sampled depends on the seed and the weights, not on who else plays.

        `on_progress` is called when a turn was written, and again when its environment has answered.
        """
        if isinstance(rollout.episode, SelfPlaying):
            await self._accompany(sampler, rollout, steps, seed, on_progress)
            return
        while True:
            rollout.take(await self._written(sampler, rollout.context_ids, seed, len(rollout.turn_spans)))
            on_progress()
            outcome = await steps.outcome(rollout.episode, self._said(rollout))
            on_progress()
            if self._is_settled(rollout, outcome):
                return
            if not self._reads_on(rollout, outcome):
                self._is_settled(rollout, await steps.outcome(rollout.episode, None))
                return

    async def _accompany(
        self, sampler: FreeSampler, rollout: Rollout[E], steps: FreeSteps, seed: int, on_progress: Callable[[], None]
    ) -> None:
        loop, asked = asyncio.get_running_loop(), count()

        async def write(context: list[int]) -> SampledTurn:
            turn = await self._written(sampler, context, seed, next(asked))
            on_progress()
            return turn

        def sample(context: list[int]) -> SampledTurn:
            return asyncio.run_coroutine_threadsafe(write(context), loop).result()

        async with steps.place():
            await in_thread(lambda: self._play_itself(rollout, sample))

    async def _written(self, sampler: FreeSampler, context: list[int], seed: int, number: int) -> SampledTurn:
        """The turn of this number in its episode, whose seed is given."""
        began = time.monotonic()
        turn = await sampler.write(
            context,
            max_new_tokens=self.settings.max_turn_tokens,
            temperature=self.settings.temperature,
            seed=(seed + 1_000_003 * number) % MAX_SEED,
        )
        self.sampling_s += time.monotonic() - began
        return turn

    # Turns in batches

    def _play_in_batches(
        self, sampler: TurnSampler, rollouts: list[Rollout[E]], generator: torch.Generator | None
    ) -> None:
        settings = self.settings
        if alone := [rollout for rollout in rollouts if isinstance(rollout.episode, SelfPlaying)]:
            self._serve(sampler, alone, generator)
            rollouts = [rollout for rollout in rollouts if rollout.settled_reward is None]
        steps = (
            ConcurrentSteps(settings.max_concurrency, settings.step_timeout_s)
            if settings.max_concurrency
            else InlineSteps()
        )
        try:
            self._play(sampler, rollouts, steps, generator)
        finally:
            steps.close()

    def _serve(self, sampler: TurnSampler, rollouts: list[Rollout[E]], generator: torch.Generator | None) -> None:
        """Programs work in threads while their calls are sampled here."""
        desk = TurnDesk(sampler.batch, self.settings.patience_s)

        def sample(contexts: list[list[int]]) -> list[SampledTurn]:
            began = time.monotonic()
            turns = sampler.sample(
                range(len(contexts)),
                contexts,
                max_new_tokens=self.settings.max_turn_tokens,
                temperature=self.settings.temperature,
                generator=generator,
            )
            self.sampling_s += time.monotonic() - began
            return turns

        with ThreadPoolExecutor(self.settings.max_concurrency or 1, "self-played") as pool:
            games = [pool.submit(self._play_itself, rollout, desk.ask) for rollout in rollouts]
            try:
                desk.serve(sample, lambda: all(game.done() for game in games))
                for game in games:
                    game.result()
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                for rollout in rollouts:
                    rollout.episode.close()
                raise
            finally:
                desk.close()

    def _play_itself(self, rollout: Rollout[E], sample: Sample) -> None:
        """An error that names its remedy is of the whole run and raises; anything else breaks this episode."""
        settings, seen, began, waits = self.settings, Versions(), time.monotonic(), list[float]()

        def waited_for(context: list[int]) -> SampledTurn:
            asked = time.monotonic()
            try:
                return sample(context)
            finally:
                waits.append(time.monotonic() - asked)

        room = len(rollout.prompt_ids) + (settings.max_completion_tokens or settings.max_turn_tokens)
        room = min(room, self.sampler.max_tokens or room)
        write = writer(self.tokens, waited_for, settings.max_turn_tokens, room, seen)
        try:
            outcome = played(rollout.episode, write)
        except NoTurn as error:
            rollout.without_a_turn = str(error)
            outcome = StepOutcome(failure=StepFailure("runtime_error", rollout.without_a_turn))
        seconds = max(0.0, time.monotonic() - began - sum(waits))  # calls side by side wait longer than it takes
        if outcome.failure is None and outcome.reward is not None:
            rollout.settle(outcome.reward, seconds, seen)
        else:
            rollout.settled_reward = 0.0
            rollout.turns.append(TurnRecord("", None, outcome.failure, seconds))
            rollout.read([self.tokens.end_of_turn_id])  # a row keeps its place, and none is empty
        self._on_settled()

    def _play(
        self, sampler: TurnSampler, rollouts: list[Rollout[E]], steps: Steps, generator: torch.Generator | None
    ) -> None:
        waiting, ready = deque(range(len(rollouts))), list[int]()
        free, slot_of = list(range(sampler.batch)), dict[int, int]()
        heapify(free)
        while waiting or slot_of:
            while waiting and free:
                slot_of[waiting[0]] = heappop(free)
                ready.append(waiting.popleft())
            for row, outcome in steps.collect(self.settings.patience_s, must_wait=not ready):
                if self._goes_on(rollouts[row], row, outcome, steps):
                    ready.append(row)
                elif rollouts[row].settled_reward is not None:
                    heappush(free, slot_of.pop(row))
            if not ready or (waiting and free):
                continue
            ready.sort()
            self._sample(sampler, rollouts, ready, [slot_of[row] for row in ready], steps, generator)
            ready = []

    def _sample(
        self,
        sampler: TurnSampler,
        rollouts: list[Rollout[E]],
        rows: list[int],
        slots: list[int],
        steps: Steps,
        generator: torch.Generator | None,
    ) -> None:
        """Who has written its turn goes to its environment at once, unless steps run inline: they would hold up the
        others."""
        unsent = dict(enumerate(rows))

        def send(place: int, turn: SampledTurn) -> None:
            rollout = rollouts[row := unsent.pop(place)]
            rollout.take(turn)
            steps.submit(row, rollout.episode, self._said(rollout))

        began = time.monotonic()
        turns = sampler.sample(
            slots,
            [rollouts[row].context_ids for row in rows],
            max_new_tokens=self.settings.max_turn_tokens,
            temperature=self.settings.temperature,
            generator=generator,
            on_turn=send if self.settings.max_concurrency else None,
        )
        self.sampling_s += time.monotonic() - began
        for place in list(unsent):
            send(place, turns[place])

    def _goes_on(self, rollout: Rollout[E], row: int, outcome: StepOutcome, steps: Steps) -> bool:
        """Whether another turn is to be sampled."""
        if self._is_settled(rollout, outcome):
            return False
        if self._reads_on(rollout, outcome):
            return True
        steps.submit(row, rollout.episode, None)
        return False

    # Both

    def _is_settled(self, rollout: Rollout[E], outcome: StepOutcome) -> bool:
        """Write down what a step led to; True where that was the last of it."""
        if rollout.truncated:
            rollout.turns[-1] = rollout.turns[-1]._replace(failure=outcome.failure)
        else:
            rollout.turns.append(
                TurnRecord(self._said(rollout), outcome.observation, outcome.failure, outcome.seconds, outcome.failed)
            )
        if outcome.failure or outcome.reward is not None:
            rollout.settled_reward = outcome.reward or 0.0
            self._on_settled()
        return rollout.settled_reward is not None

    def _reads_on(self, rollout: Rollout[E], outcome: StepOutcome) -> bool:
        """Read what came back; False where another turn might not fit behind it."""
        start, end = rollout.turn_spans[-1]
        closing = self.tokens.closing(rollout.completion_ids[start:end])
        answer = closing + self.tokens.after_turn(outcome.observation or "")
        rollout.truncated = not self._has_room(rollout, len(answer))
        if not rollout.truncated:
            rollout.read(answer)
        return not rollout.truncated

    def _said(self, rollout: Rollout[E]) -> str:
        """The last turn, as its environment gets it."""
        start, end = rollout.turn_spans[-1]
        context = rollout.prompt_ids + rollout.completion_ids[:start]
        return self.tokens.said(context, rollout.completion_ids[start:end], rollout.episode.tools)

    def _has_room(self, rollout: Rollout[E], answer_tokens: int) -> bool:
        settings = self.settings
        needed = len(rollout.completion_ids) + answer_tokens + settings.max_turn_tokens
        return (
            len(rollout.turn_spans) < settings.max_turns
            and needed <= (settings.max_completion_tokens or needed)
            and len(rollout.prompt_ids) + needed <= (self.sampler.max_tokens or len(rollout.prompt_ids) + needed)
        )

    def check(self, rollouts: Sequence[Rollout[E]]) -> None:
        """What cannot be played is refused before the first turn."""
        if not self.settings.max_concurrency and any(iscoroutinefunction(rollout.episode.step) for rollout in rollouts):
            raise UsageError("an asynchronous environment cannot run inline", "set max_concurrency to 1 or more")
        longest = max((len(rollout.prompt_ids) for rollout in rollouts), default=0)
        room = self.sampler.max_tokens
        if room is not None and longest + self.settings.max_turn_tokens > room:
            raise UsageError(
                f"a prompt of {longest} tokens and one turn do not fit the sampler's {room} tokens",
                "build the sampler with more tokens",
            )


def seeds_of(number: int, generator: torch.Generator | None) -> list[int]:
    """One for each episode."""
    device = generator.device if generator else None
    return torch.randint(MAX_SEED, (number,), generator=generator, device=device).tolist()
