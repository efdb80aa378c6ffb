"""Steps of many environments at once: in threads, as coroutines, or inline where they are too fast for either.

A step never raises and never hangs the batch: what goes wrong inside an environment comes back as a `StepFailure`.
A thread cannot be stopped, so one that outlives its time is left behind as a daemon and its answer is thrown away.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from inspect import isawaitable, iscoroutinefunction
from queue import Empty, SimpleQueue
from typing import Any, Literal, NamedTuple

from composer_replication.environments.attempts import Graded
from composer_replication.environments.protocol import Episode
from composer_replication.environments.self_played import NoTurn, SelfPlaying, Writer
from composer_replication.environments.untrusted import encodable
from composer_replication.errors import RecomposeError
from composer_replication.monitor.judge import rule

JOIN_S = 1.0


class StepFailure(NamedTuple):
    """An environment that broke. The rollout ends there with reward 0."""

    kind: Literal["timeout", "runtime_error"]
    """Whether it took too long or raised."""
    message: str
    """What it said."""


class StepOutcome(NamedTuple):
    """`reward` is read once, when the episode has ended, in the same thread as the step: it may be slow too."""

    observation: str | None = None
    reward: float | None = None
    failure: StepFailure | None = None
    seconds: float = 0.0
    failed: bool = False
    """Whether the environment called the turn an error of the policy."""


class InlineSteps:
    """Each step runs where it is submitted."""

    def __init__(self) -> None:
        self._done: list[tuple[int, StepOutcome]] = []

    def submit(self, row: int, episode: Episode, text: str | None) -> None:
        self._done.append((row, _step(episode, text)))

    def collect(self, patience_s: float, must_wait: bool) -> Iterator[tuple[int, StepOutcome]]:
        done, self._done = self._done, []
        return iter(done)

    def close(self) -> None:
        pass


class FreeSteps:
    """Steps to be awaited, each with `timeout_s` from its own start: up to `max_concurrency` at a time, 0 inline."""

    def __init__(self, max_concurrency: int, timeout_s: float | None) -> None:
        self._timeout_s = timeout_s
        self._places = asyncio.Semaphore(max_concurrency) if max_concurrency else None

    def place(self) -> AbstractAsyncContextManager[Any]:
        """For an episode that plays itself: held until it is over."""
        return self._places or nullcontext()

    async def outcome(self, episode: Episode, text: str | None) -> StepOutcome:
        """What a turn leads to; without a text only the reward is read."""
        if self._places is None:
            return _step(episode, text)
        async with self._places:
            started = time.monotonic()
            try:
                outcome = await self._bounded(episode, text)
            except Exception as error:
                outcome = StepOutcome(failure=_failure(error))
            return outcome._replace(seconds=time.monotonic() - started)

    async def _bounded(self, episode: Episode, text: str | None) -> StepOutcome:
        if text is not None and iscoroutinefunction(episode.step):
            work: asyncio.Future[StepOutcome] = asyncio.create_task(_step_async(episode, text))
        else:
            work = in_thread(lambda: _step(episode, text))
        if await self._ended(work):
            return StepOutcome(failure=_failure(asyncio.CancelledError())) if work.cancelled() else work.result()
        work.cancel()
        failure = StepFailure("timeout", f"the step timed out after {self._timeout_s:g} s")
        reading = in_thread(lambda: _reward(episode))
        return StepOutcome(reward=reading.result() if await self._ended(reading) else 0.0, failure=failure)

    async def _ended(self, work: asyncio.Future[Any]) -> bool:
        ended, _ = await asyncio.wait({work}, timeout=self._timeout_s)
        return bool(ended)


class ConcurrentSteps:
    """Up to `max_concurrency` steps at a time on a loop of their own."""

    def __init__(self, max_concurrency: int, timeout_s: float | None) -> None:
        self._in_flight = 0
        self._done: SimpleQueue[tuple[int, StepOutcome]] = SimpleQueue()
        self._steps = FreeSteps(max_concurrency, timeout_s)
        self._loop = asyncio.new_event_loop()
        self._running: set[Any] = set()
        self._thread = threading.Thread(target=self._loop.run_forever, name="environment-steps", daemon=True)
        self._thread.start()

    def submit(self, row: int, episode: Episode, text: str | None) -> None:
        """Have `episode` take a turn; without a text only its reward is read."""
        self._in_flight += 1
        running = asyncio.run_coroutine_threadsafe(self._deliver(row, episode, text), self._loop)
        self._running.add(running)
        running.add_done_callback(self._running.discard)

    def collect(self, patience_s: float, must_wait: bool) -> Iterator[tuple[int, StepOutcome]]:
        """What came back within `patience_s`, counted from the first outcome where `must_wait`."""
        deadline = None if must_wait else time.monotonic() + patience_s
        while self._in_flight:
            try:
                done = self._done.get(timeout=None if deadline is None else max(0.0, deadline - time.monotonic()))
            except Empty:
                return
            self._in_flight -= 1
            deadline = time.monotonic() + patience_s if deadline is None else deadline
            yield done

    def close(self) -> None:
        for running in tuple(self._running):
            running.cancel()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(JOIN_S)
        if not self._thread.is_alive():
            self._loop.close()

    async def _deliver(self, row: int, episode: Episode, text: str | None) -> None:
        self._done.put((row, await self._steps.outcome(episode, text)))


Steps = InlineSteps | ConcurrentSteps


async def _step_async(episode: Episode, text: str) -> StepOutcome:
    try:
        answered: Any = await episode.step(text)  # type: ignore[misc]
    except (Exception, SystemExit) as error:
        return StepOutcome(failure=_failure(error))
    # A reward may be slow and must not keep the other coroutines waiting.
    return await in_thread(lambda: _outcome(episode, answered))


def in_thread(function: Callable[[], Any]) -> asyncio.Future[Any]:
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()

    def settle(value: Any) -> None:
        if not future.done():
            future.set_result(value)

    def work() -> None:
        value = function()
        with suppress(RuntimeError):  # the loop has closed: nobody waits any more
            loop.call_soon_threadsafe(settle, value)

    threading.Thread(target=work, name="environment-step", daemon=True).start()
    return future


def _step(episode: Episode, text: str | None) -> StepOutcome:
    try:
        if text is None:
            return StepOutcome(reward=_ruled_reward(episode))
        answered: Any = episode.step(text)
        if isawaitable(answered):
            raise TypeError("a step that returns an awaitable must be declared async")
    except (Exception, SystemExit) as error:
        return StepOutcome(failure=_failure(error))
    return _outcome(episode, answered)


def _outcome(episode: Episode, answered: Any) -> StepOutcome:
    """What a step led to."""
    try:
        if not (hasattr(answered, "observation") and hasattr(answered, "failed")):
            raise TypeError(f"step returned {type(answered).__name__}; return PlainAnswer(observation, failed)")
        observation = answered.observation
        return StepOutcome(
            None if observation is None else encodable(str(observation)),
            _ruled_reward(episode) if episode.finished else None,
            failed=bool(answered.failed),
        )
    except (Exception, SystemExit) as error:
        return StepOutcome(failure=_failure(error))


def _ruled_reward(episode: Episode) -> float:
    """What the monitor leaves of it, where there is evidence to judge by."""
    if isinstance(episode, Graded):
        rule(episode, episode.trace("policy", 0))
    return float(episode.reward)


def played(episode: Episode, write: Writer) -> StepOutcome:
    """An episode that plays itself, to its end and its reward. An error that names its remedy is of the whole run;
    whether `NoTurn` is, the others tell."""
    assert isinstance(episode, SelfPlaying)
    try:
        episode.play(write)
        return StepOutcome(reward=_ruled_reward(episode))
    except (RecomposeError, NoTurn):
        raise
    except (Exception, SystemExit) as error:
        return StepOutcome(failure=_failure(error))


def _reward(episode: Episode) -> float:
    try:
        return _ruled_reward(episode)
    except (Exception, SystemExit):
        return 0.0


def _failure(error: BaseException) -> StepFailure:
    return StepFailure("runtime_error", encodable(f"{type(error).__name__}: {error}"))
