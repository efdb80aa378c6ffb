"""Rollouts that are played all the time, for TRL's asynchronous trainer: its `rollout_worker`.

A thread of its own plays groups of episodes, each episode a coroutine, and puts whole groups into the queue that the
trainer drains. A bounded number of groups is under way, so a trainer that falls behind holds the players back.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import count
from typing import Any

from composer_replication.environments.protocol import Environment, EnvironmentTask, Episode
from composer_replication.errors import RecomposeError
from composer_replication.records import Trace, content_id

from ...lessons.online_sites import OnlineSite, Rolled
from ...rollouts.environment_steps import FreeSteps
from ...rollouts.playing import closed, started
from ...rollouts.server_sampling import ServerSampler
from ...rollouts.worker import MAX_SEED, Rollout, RolloutWorker
from .samples import queued_samples

FindSites = Callable[[Sequence[Rolled]], tuple[list[list[OnlineSite]], Counter[str]]]
FULL_QUEUE_PAUSE_S, JOIN_S = 0.05, 10.0


class EpisodeQueue:
    def __init__(
        self,
        worker: RolloutWorker,
        sampler: ServerSampler,
        environment: Environment,
        tasks: Sequence[EnvironmentTask],
        *,
        group_size: int,
        groups_in_flight: int,
        seed: int,
        error_turn_penalty: float = 0.0,
        find_sites: FindSites | None = None,
        source_model: str = "policy",
    ) -> None:
        self._worker, self._sampler, self._environment, self._tasks = worker, sampler, environment, tasks
        self._group_size, self._groups_in_flight, self._seed = group_size, groups_in_flight, seed
        self._error_turn_penalty, self._find_sites, self._source_model = error_turn_penalty, find_sites, source_model
        self.rollout_buffer: queue.Queue[Any] = queue.Queue(maxsize=groups_in_flight * group_size)
        self.metrics_queue: queue.Queue[dict[str, float]] = queue.Queue()
        self._stopping = threading.Event()
        self._cancel: Callable[[], object] | None = None
        self._failure: BaseException | None = None
        self._alive_at = time.monotonic()
        self._thread = threading.Thread(target=self._run, name="episode-queue", daemon=True)

    def phase(self) -> str:
        """How far the next step's rollouts are, for a person."""
        return f"{self.rollout_buffer.qsize()} finished rollouts wait in the queue"

    # What TRL asks of a worker

    def start(self) -> None:
        self._beat()
        self._thread.start()

    def stop(self) -> None:
        """Turns under way are given up and their episodes closed. Closing that takes longer goes on in the thread."""
        self._stopping.set()
        if self._cancel is not None:
            with suppress(RuntimeError):  # the loop has closed: it ended by itself
                self._cancel()
        if self._thread.is_alive():
            self._thread.join(JOIN_S)

    def update_model_version(self, model_version: int) -> None:
        self._sampler.version = model_version

    def check_health(self, stale_after_s: float) -> None:
        if self._failure is not None:
            raise self._failure
        if time.monotonic() - self._alive_at > stale_after_s:
            raise RecomposeError(
                f"no turn of a rollout was finished for {stale_after_s:.0f} s",
                "look at the sampling server and the environment",
            )

    def _beat(self) -> None:
        self._alive_at = time.monotonic()

    # Playing

    def _run(self) -> None:
        try:
            asyncio.run(self._produce())
        except BaseException as error:
            if not self._stopping.is_set():
                self._failure = _first(error)

    async def _produce(self) -> None:
        loop, producer = asyncio.get_running_loop(), asyncio.current_task()
        assert producer is not None
        self._cancel = lambda: loop.call_soon_threadsafe(producer.cancel)
        if self._stopping.is_set():
            return
        steps = FreeSteps(self._worker.settings.max_concurrency, self._worker.settings.step_timeout_s)
        places = asyncio.Semaphore(self._groups_in_flight)
        async with self._sampler.connected(), asyncio.TaskGroup() as groups:
            for number in count():
                await places.acquire()
                groups.create_task(self._group(number, steps, places))

    async def _group(self, number: int, steps: FreeSteps, places: asyncio.Semaphore) -> None:
        async with self._episodes(self._tasks[number % len(self._tasks)]) as episodes:
            rollouts = [Rollout(episode, self._worker.tokens.prompt(episode.messages)) for episode in episodes]
            self._worker.check(rollouts)
            async with asyncio.TaskGroup() as group:
                for member, rollout in enumerate(rollouts):
                    seed = int(content_id(self._seed, number, member), 16) % MAX_SEED
                    group.create_task(self._worker.play(self._sampler, rollout, steps, seed, self._beat))
            samples = await asyncio.to_thread(self._scored, rollouts, number)
        for sample in samples:
            await self._put(sample)
        places.release()

    @asynccontextmanager
    async def _episodes(self, task: EnvironmentTask) -> AsyncGenerator[list[Episode]]:
        """A thread that starts episodes cannot be stopped: whoever gives up waits for it, to close what it started."""
        starting = asyncio.create_task(asyncio.to_thread(started, self._environment, [task] * self._group_size))
        try:
            yield await asyncio.shield(starting)
        finally:
            await asyncio.to_thread(closed, self._environment, await starting)

    def _scored(self, rollouts: Sequence[Rollout[Episode]], number: int) -> list[Any]:
        traces: list[Trace] = [rollout.row_trace(self._source_model, row) for row, rollout in enumerate(rollouts)]
        observed = self._environment.observe([rollout.episode for rollout in rollouts], traces)
        charges = observed.charges if observed else [0.0] * len(rollouts)
        rewards = [
            rollout.reward - self._error_turn_penalty * sum(turn.failed for turn in rollout.turns) + charge
            for rollout, charge in zip(rollouts, charges, strict=True)
        ]
        sites: list[list[OnlineSite]] = [[] for _ in rollouts]
        told = dict(observed.metrics) if observed else {}
        if self._find_sites:
            rolled = [one.rolled(trace) for trace, one in zip(traces, rollouts, strict=True)]
            sites, dropped = self._find_sites(rolled)
            told |= {"sdpo/sites_per_rollout": sum(map(len, sites)) / len(rollouts)}
            told |= {f"sdpo/dropped/{reason}": float(lost) for reason, lost in dropped.items()}
        return queued_samples(rollouts, rewards, sites, number, told)

    async def _put(self, sample: Any) -> None:
        while True:
            self._beat()
            try:
                sample.enqueued_at = time.time()
                return self.rollout_buffer.put_nowait(sample)
            except queue.Full:
                await asyncio.sleep(FULL_QUEUE_PAUSE_S)


def _first(error: BaseException) -> BaseException:
    """Of those that task groups gathered."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
