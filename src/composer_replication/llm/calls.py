"""Many paid calls at a time, a queue per teacher. Each ends settled, given up, or not asked because the run stops.

A retry is a new reservation, so the cap covers it. The run stops admitting calls when the cap has no room, when the
ledger fails, or when the user says so; calls in flight are always waited for, unless the user says so twice: then they
are in doubt. A provider that wants money or another key ends the queues of that key, and the others go on.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from composer_replication.errors import BudgetError, RecomposeError

from .client import Attempted, attempt
from .http_answers import AnswerVerdict
from .lane import Lane, QueuedCall
from .ledger import POISON_WAYS, Ledger
from .transport import Transport

BACKOFF_S = 0.25
MAX_BACKOFF_S = 20.0
BUSY_S = 0.3
DRAIN_S = 25.0


@dataclass
class Live:
    """What a person wants to see while it runs. `errors` counts attempts, `failed` calls that were given up."""

    total: int
    done: int = 0
    failed: int = 0
    attempts: int = 0
    charged_micros: int = 0
    errors: Counter[str] = field(default_factory=Counter[str])
    words: dict[str, str] = field(default_factory=dict[str, str])
    """What the provider said last, by error."""
    teachers: dict[str, Live] = field(default_factory=dict[str, "Live"])
    """The same for each of them, by name."""
    started: float = field(default_factory=time.monotonic)

    @classmethod
    def of(cls, lanes: Sequence[Lane]) -> Live:
        live = cls(sum(lane.pending for lane in lanes))
        live.teachers = {lane.endpoint.name: cls(lane.pending) for lane in lanes}
        return live

    def parts(self, lane: Lane) -> tuple[Live, Live]:
        """The whole, and the share of one teacher."""
        return self, self.teachers[lane.endpoint.name]

    @property
    def ended(self) -> int:
        return self.done + self.failed

    @property
    def projected_micros(self) -> int:
        """What all calls will have cost if the rest is like those that have ended."""
        return round(self.charged_micros * self.total / max(1, self.ended))

    @property
    def calls_per_s(self) -> float:
        return self.attempts / max(1e-9, time.monotonic() - self.started)


class Calls:
    """`failures` has the reason for each key that was given up; `error` is why the run stopped, if it did."""

    def __init__(
        self,
        lanes: Sequence[Lane],
        ledger: Ledger,
        transport: Transport,
        max_attempts: int,
        on_change: Callable[[Live], None],
        is_enough: Callable[[set[str]], bool] = lambda useless: True,
    ) -> None:
        """`is_enough`: whether it makes sense to go on without these teachers, whose answers are of no use."""
        self.lanes = lanes
        self.live = Live.of(lanes)
        self.failures: dict[str, str] = {}
        self.error: BaseException | None = None
        self._ledger = ledger
        self._transport = transport
        self._max_attempts = max_attempts
        self._on_change = on_change
        self._is_enough = is_enough
        self._refused: RecomposeError | None = None
        self._wakes = {id(lane): asyncio.Event() for lane in lanes}
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        self._without_useless()  # a lane may come with answers of earlier runs
        await asyncio.gather(*(self._serve(lane) for lane in self.lanes))
        self.error = self.error or self._refused

    def stop(self, error: BaseException) -> None:
        """Admit nothing more. The first reason stays."""
        self.error = self.error or error
        for wake in self._wakes.values():
            wake.set()

    def cancel(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def _serve(self, lane: Lane) -> None:
        wake = self._wakes[id(lane)]
        while True:
            now = time.monotonic()
            if self.error:
                lane.drop()
            elif lane.parked:
                self._give_up(lane, lane.drop(), lane.parked)
            if not lane.pending and not lane.in_flight:
                return
            pause_s = lane.pause_s(now)
            if pause_s == 0:
                task = asyncio.create_task(self._attempt(lane, lane.take(now)))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
                continue
            wake.clear()
            try:
                async with asyncio.timeout(pause_s):
                    await wake.wait()
            except TimeoutError:
                pass

    async def _attempt(self, lane: Lane, job: QueuedCall) -> None:
        try:
            attempted = await attempt(job.call, lane.endpoint, self._ledger, self._transport, lane.prices)
            self._after(lane, job, attempted)
        except Exception as error:
            self.stop(error)  # the ledger failed, or we did: either way nothing more is sent
        except asyncio.CancelledError:
            pass  # it is in doubt in the ledger, and the run is stopping
        finally:
            lane.in_flight -= 1
            self._wakes[id(lane)].set()

    def _after(self, lane: Lane, job: QueuedCall, attempted: Attempted) -> None:
        now = time.monotonic()
        if attempted.action == "busy":
            self._ledger.reap()
            lane.again(job, now + BUSY_S * random.uniform(0.7, 1.3))
            return
        if attempted.action == "over_cap":
            self._no_room(lane, job, now)
            return
        for part in self.live.parts(lane):
            part.attempts += 1
            part.charged_micros += attempted.charge.micros
        lane.learn(attempted.charge)
        if attempted.action == "done":
            lane.succeeded()
            if attempted.verdict and attempted.verdict.answer:
                lane.weigh(attempted.verdict.answer)
                self._without_useless()
            for part in self.live.parts(lane):
                part.done += 1
            self._on_change(self.live)
            return
        self._failed(lane, job, attempted, now)

    def _failed(self, lane: Lane, job: QueuedCall, attempted: Attempted, now: float) -> None:
        verdict = attempted.verdict
        assert verdict is not None
        reason = verdict.reason or "unknown"
        for part in self.live.parts(lane):
            part.errors[reason] += 1
            part.words |= {reason: verdict.words} if verdict.words else {}
        told = f"{reason}{verdict.words and f': {verdict.words}'}"
        if attempted.action == "stop_key":
            self._refuse(lane, verdict, told)
        elif reason == "HTTP 404" and not lane.answered:
            lane.missing(verdict.words)
        elif attempted.action == "retry_never" and reason.startswith("HTTP"):
            lane.disappointed(told)
            self._without_useless()
        if attempted.action == "retry_soon" and not verdict.unusable:
            lane.troubled(attempted, now)
        if verdict.unusable:
            job.ways.add(reason)
        probing = lane.is_probing and not lane.parked
        job.tries += 0 if probing else 1
        final = attempted.action != "retry_soon" or job.tries >= self._max_attempts or len(job.ways) >= POISON_WAYS
        if final:
            self._give_up(
                lane, [job], "poison: " + ", ".join(sorted(job.ways)) if len(job.ways) >= POISON_WAYS else reason
            )
        else:
            backoff_s = min(MAX_BACKOFF_S, BACKOFF_S * 2 ** max(0, job.tries - 1))
            lane.again(job, now + backoff_s * random.uniform(0.5, 1.0))
        self._on_change(self.live)

    def _refuse(self, lane: Lane, verdict: AnswerVerdict, told: str) -> None:
        """Nobody whose key is the same will be answered."""
        name = lane.endpoint.name
        if verdict.no_credit:
            error = BudgetError(
                f"{name}'s provider wants credit ({told}); all answers are saved", "add credit and run again"
            )
        elif lane.endpoint.key:
            error = RecomposeError(
                f"{name}'s provider refused the key ({told})", "check the key's variable and run again"
            )
        else:
            error = RecomposeError(
                f"{name}'s provider wants a key ({told})", "name the variable that holds one, and run again"
            )
        self._refused = self._refused or error
        for other in self.lanes:
            if _account(other) == _account(lane):
                other.parked = f"no call with this key is answered ({told})"
                self._wakes[id(other)].set()

    def _without_useless(self) -> None:
        """Where those that are left cannot make a pair, they are asked no more."""
        useless = {lane.endpoint.name for lane in self.lanes if lane.is_useless}
        if useless and not self._is_enough(useless):
            for lane in self.lanes:
                lane.parked = lane.parked or "no pair can come of it without the others"
                self._wakes[id(lane)].set()

    def _no_room(self, lane: Lane, job: QueuedCall, now: float) -> None:
        """Calls in flight are held at worst case and mostly cost less: there may be room when they have ended."""
        others = sum(other.in_flight for other in self.lanes) - 1
        if others:
            lane.again(job, now + BUSY_S)
        else:
            self.stop(self._ledger.totals().no_room("call"))

    def _give_up(self, lane: Lane, jobs: Sequence[QueuedCall], reason: str) -> None:
        for job in jobs:
            self.failures[job.call.key] = reason
        for part in self.live.parts(lane):
            part.failed += len(jobs)
        if jobs:
            self._on_change(self.live)


def _account(lane: Lane) -> tuple[str, str]:
    key = lane.endpoint.key
    return lane.endpoint.base_url, str(key.headers()) if key else ""
