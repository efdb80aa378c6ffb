"""The queue of one teacher: how many calls at a time, when the next one may go, and when to leave the teacher alone.

Calls in flight grow until the teacher complains, shrink by a fifth then, and creep up again. `Retry-After` holds the
whole queue back; more than a quarter of an hour of it parks the teacher, so that the others can finish. A teacher that
fails again and again is asked by one call at a time, ever more rarely, until it answers. One whose first answers are
all of no use is left alone after a few, and no more than these few are under way until one was. Times are monotonic
seconds.
"""

from __future__ import annotations

import heapq
import random
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from .client import Attempted, Endpoint, PaidCall
from .pricing import Charge, Prices, learned_prices

START_IN_FLIGHT = 8
CUT = 0.8
GROWTH = 0.05
CUT_INTERVAL_S = 1.0
OWN_COOLDOWN_S = 0.05
MAX_COOLDOWN_S = 60.0
PARK_AFTER_S = 900.0
TROUBLES_TO_OPEN = 10
PROBE_INTERVAL_S = 10.0
NOT_SERVED = "the model is not served there (HTTP 404)"


@dataclass(slots=True)
class QueuedCall:
    call: PaidCall
    tries: int = 0
    ways: set[str] = field(default_factory=set[str])
    """Different reasons for which its answers were of no use."""


@dataclass
class Lane:
    endpoint: Endpoint
    max_in_flight: int
    learns_price: bool = False
    """Until a first answer told its cost, one call at a time."""
    in_flight: int = 0
    parked: str | None = None
    answered: bool = False
    overloads: int = 0
    troubles: int = 0
    prices: Prices | None = None
    max_useless: int = 0
    """How many answers of no use, from the first on, end it; 0 is no limit."""
    why_useless: Callable[[dict[str, Any]], str | None] = lambda answer: None
    """What makes an answer useless, and what to do about that; None for a good one."""
    is_useful: bool = False
    is_useless: bool = False
    useless: Counter[str] = field(default_factory=Counter[str])
    is_missing: bool = False
    """Nobody is there, or not this model."""
    _ready: deque[QueuedCall] = field(default_factory=deque[QueuedCall])
    _delayed: list[tuple[float, int, QueuedCall]] = field(default_factory=list[tuple[float, int, QueuedCall]])
    _limit: float = START_IN_FLIGHT
    _starting: bool = True
    _not_before: float = 0.0
    _cut_at: float = -CUT_INTERVAL_S
    _open_since: float | None = None
    _order: int = 0

    def add(self, calls: Iterable[PaidCall]) -> None:
        self._ready.extend(QueuedCall(call) for call in calls)

    @property
    def pending(self) -> int:
        return len(self._ready) + len(self._delayed)

    @property
    def limit(self) -> int:
        if self.is_probing or (self.learns_price and self.prices is None):
            return 1
        most = self.max_in_flight
        if self.max_useless and not self.is_useful:
            most = min(most, self.max_useless - self.useless.total())
        return max(1, min(most, int(self._limit)))

    def pause_s(self, now: float) -> float | None:
        """0 when a call may start now; None when only the end of another call can change that."""
        if not self.pending or self.in_flight >= self.limit:
            return None
        ready = self._ready or self._delayed[0][0] <= now
        until = self._not_before if ready else max(self._not_before, self._delayed[0][0])
        return max(0.0, until - now)

    def take(self, now: float) -> QueuedCall:
        self.in_flight += 1
        if self._delayed and self._delayed[0][0] <= now:
            return heapq.heappop(self._delayed)[2]
        return self._ready.popleft()

    def again(self, job: QueuedCall, at: float) -> None:
        self._order += 1
        heapq.heappush(self._delayed, (at, self._order, job))

    def drop(self) -> list[QueuedCall]:
        dropped = [*self._ready, *(job for _, _, job in self._delayed)]
        self._ready.clear()
        self._delayed.clear()
        return dropped

    def succeeded(self) -> None:
        if self.is_probing:
            self._limit, self._starting, self._open_since = START_IN_FLIGHT, True, None
        self.answered, self.overloads, self.troubles = True, 0, 0
        self._limit += 1.0 if self._starting else GROWTH

    def weigh(self, answer: dict[str, Any]) -> None:
        if not self.is_useful:
            why = self.why_useless(answer)
            self.is_useful = why is None
            self.disappointed(why)

    def disappointed(self, why: str | None) -> None:
        if self.is_useful or not self.max_useless or why is None:
            return
        self.useless[why] += 1
        if self.useless.total() >= self.max_useless:
            self.is_useless = True
            reasons = "; ".join(f"{count} × {reason}" for reason, count in self.useless.most_common(2))
            self.parked = f"its first {self.useless.total()} answers were of no use: {reasons}"

    def missing(self, words: str) -> None:
        self.is_missing = True
        self.parked = f"{NOT_SERVED}{words and f': {words}'}"

    def learn(self, charged: Charge) -> None:
        """The dearest token seen so far prices the next call."""
        if self.learns_price and charged.exact and charged.usage.prompt_tokens:
            seen = learned_prices(charged.micros, charged.usage)
            self.prices = max(self.prices, seen) if self.prices else seen

    def troubled(self, attempted: Attempted, now: float) -> None:
        verdict = attempted.verdict
        assert verdict is not None
        wait_s = verdict.retry_after_s or 0.0
        if verdict.overload:
            self.overloads += 1
            own_s = _doubled_s(OWN_COOLDOWN_S, self.overloads - 1)
            wait_s = max(wait_s, own_s * random.uniform(0.5, 1.0))
            if now - self._cut_at >= CUT_INTERVAL_S:
                self._limit, self._cut_at, self._starting = max(1.0, self.limit * CUT), now, False
        else:
            self.troubles += 1
        if wait_s > PARK_AFTER_S:
            self.parked = f"it asks to wait {wait_s / 60:.0f} minutes"
        if self.troubles >= TROUBLES_TO_OPEN:
            wait_s = max(wait_s, self._opened(now, verdict.reason))
        # A little more than asked, so that the calls of one window do not all come back at once.
        self._not_before = max(self._not_before, now + wait_s * random.uniform(1.0, 1.1))

    def _opened(self, now: float, reason: str | None) -> float:
        self._open_since = self._open_since if self._open_since is not None else now
        if not self.answered or now - self._open_since > PARK_AFTER_S:
            self.parked, self.is_missing = f"it gives no answer{f': {reason}' * bool(reason)}", True
        return _doubled_s(PROBE_INTERVAL_S, self.troubles - TROUBLES_TO_OPEN)

    @property
    def is_probing(self) -> bool:
        return self._open_since is not None


def _doubled_s(first_s: float, times: int) -> float:
    return min(MAX_COOLDOWN_S, first_s * 2.0 ** min(times, 10))
