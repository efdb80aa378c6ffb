"""Which contract a server keeps, measured at the start of a run on adapters that are thrown away.

With a huge epsilon and no memory Adam makes plain gradient steps, so the change of one log-probability is in proportion
to the gradient. Each known way to average has proportions of its own. What fits none of them is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from composer_replication.errors import UsageError

from ...step.sampled import PulledRow
from .contract import DIVISORS, ROWS_TOGETHER, SUM, Contract, filled
from .server import Adam, TinkerServer

TOLERANCE = 0.15
WANTED_NATS = 0.05
"""How far one log-probability is moved: far beyond rounding, near enough for a straight line."""
EPSILON = 1e3
TRIES = 8
SHORT, LONG = 5, 12
FAINT = 1e-3
USUAL_NATS = -2.0
"""A token that is sure, or out of the question, moves in no straight line."""


class ProbeStep(NamedTuple):
    """Requests of one step, as lengths of their rows. The first row of the first has the pull."""

    requests: Sequence[Sequence[int]]
    pull: float = 1.0
    also: tuple[int, int] | None = None
    """Request and row of a second pull, too faint to move anything, which a server that counts pulls counts."""

    def rows(self, ids: list[int], logprobs: list[float], place: int, sign: float) -> list[list[PulledRow]]:
        known = [0.0, *logprobs]
        made = [[PulledRow(ids[:n], [0.0] * n, known[:n]) for n in lengths] for lengths in self.requests]
        made[0][0].pulls[place] = sign * self.pull
        if self.also:
            request, row = self.also
            made[request][row].pulls[-1] = sign * FAINT
        return made

    def expected(self, contract: Contract) -> float:
        sent = [filled(rows) for rows in self.rows([0] * LONG, [0.0] * LONG, 1, 1.0)]
        return self.pull / contract.divisors(sent)[0][0]


MANY = [LONG] * ROWS_TOGETHER
TRIALS = (
    ProbeStep([[LONG]]),
    ProbeStep([[LONG]], 2.0),
    ProbeStep([[SHORT]]),
    ProbeStep([[LONG, *MANY]]),
    ProbeStep([[LONG], MANY]),
    ProbeStep([[LONG]], also=(0, 0)),
    ProbeStep([[LONG, LONG]], also=(0, 1)),
    ProbeStep([[LONG], [LONG]], also=(1, 0)),
)


def find_contract(server: TinkerServer, text: list[int]) -> Contract:
    """From a text of at least `LONG` tokens; `server` has adapters to throw away."""
    server.contract = Contract()
    # Backwards, so that the model is not sure of it.
    ids = text[::-1][:LONG]
    (logprobs,) = server.read([ids])
    place = min(range(1, SHORT), key=lambda place: abs(logprobs[place - 1] - USUAL_NATS))
    scale = _scale(server, ids, place)
    found = [_moved(server, ids, place, trial, scale) for trial in TRIALS]
    misses = {name: _miss(found, [trial.expected(Contract(name)) for trial in TRIALS]) for name in DIVISORS}
    best = min(misses, key=lambda name: misses[name])
    if misses[best] > TOLERANCE:
        told = ", ".join(f"{value / found[0]:.3g}" for value in found)
        summed = ", ".join(f"{trial.expected(Contract(SUM)):.3g}" for trial in TRIALS)
        raise UsageError(
            f"{server.url} keeps no contract that is known here: gradients in proportions of {told}, where a sum has "
            f"{summed}",
            "use another server, or --backend trl",
        )
    return Contract(best)


def _scale(server: TinkerServer, ids: list[int], place: int) -> float:
    """The step with which a pull of 1 moves its log-probability about as far as wanted."""
    scale = 1e-2
    for _ in range(TRIES):
        moved = _moved(server, ids, place, TRIALS[0], scale)
        if WANTED_NATS / 2 < moved < WANTED_NATS * 2:
            return scale
        scale *= min(1e2, max(1e-2, WANTED_NATS / moved)) if moved > 0 else 0.1
    raise UsageError(f"a gradient step on {server.url} does not move what it should", "read the server's log")


def _moved(server: TinkerServer, ids: list[int], place: int, trial: ProbeStep, scale: float) -> float:
    """One step forth and one back: what is curved cancels out, and the adapters are where they were."""
    plain = Adam(scale * EPSILON, beta1=0.0, beta2=0.0, eps=EPSILON, grad_clip_norm=0.0)
    seen = server.read([ids])
    for sign in (1.0, -1.0):
        server.send(*trial.rows(ids, seen[-1], place, sign))
        server.step(plain)
        seen += server.read([ids])
    before, there, back = (logprobs[place - 1] for logprobs in seen)
    return there - (before + back) / 2


def _miss(found: Sequence[float], expected: Sequence[float]) -> float:
    return max(abs(value / found[0] * expected[0] / ours - 1) for value, ours in zip(found, expected, strict=True))
