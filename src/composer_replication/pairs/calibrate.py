"""How often agreement is right, per (votes, n, kind), measured wherever an oracle knows.

Reads pairs and an oracle, writes `Calibration`. A cell stays only if the lower end of its 95 % Clopper-Pearson interval
reaches the bar: in `benchmarks/vote_calibration.py` the point estimate lets through many cells whose true precision is
under it. A cell that was never measured is kept, its pairs without a precision. 1 − precision of a kept pair is its
label smoothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple

from composer_replication.records import PreferencePair, Record, Trace, TraceState, canonical_tool_call
from composer_replication.special_functions import incomplete_beta

from .build import PairSet

BAR = 0.8
LEVEL = 0.95
Oracle = Callable[[TraceState, str], bool | None]
"""Whether an action is right at a state; None where nobody knows."""


class CellKey(NamedTuple):
    votes: int
    n: int
    kind: str | None


class Cell(Record):
    """Pairs of one `kind` of error for which `votes` of `n` teachers agreed, `right` of `total` with the right action.
    `mean` is what the interval is about; `precision` is what pairs carry."""

    votes: int
    n: int
    kind: str | None
    right: int
    total: int

    @property
    def mean(self) -> float:
        return self.right / self.total

    @property
    def interval(self) -> tuple[float, float]:
        return clopper_pearson(self.right, self.total)

    @property
    def precision(self) -> float:
        """Jeffreys' estimate: a short run without an error is no certainty."""
        return (self.right + 0.5) / (self.total + 1)


class Calibration(Record):
    """How often votes of each kind were right, and the bar below which they are dropped."""

    cells: tuple[Cell, ...]
    bar: float = BAR
    """The lowest that the lower end of a cell's interval may be."""

    def cell(self, pair: PreferencePair) -> Cell | None:
        """The kind of vote that a pair belongs to; None where it was never measured."""
        key = _key(pair)
        return next((cell for cell in self.cells if (cell.votes, cell.n, cell.kind) == key), None)

    def keeps(self, cell: Cell) -> bool:
        """Whether the lower end of its interval reaches the bar."""
        return cell.interval[0] >= self.bar

    def apply(self, found: PairSet) -> PairSet:
        """Pairs with their precision; those of cells under the bar become `low_precision`."""
        kept: list[PreferencePair] = []
        for pair in found.pairs:
            cell = self.cell(pair)
            if cell is None:
                kept.append(pair)
            elif self.keeps(cell):
                kept.append(pair.model_copy(update={"precision": round(cell.precision, 4)}))
        states = {pair.state_id for pair in found.pairs} - {pair.state_id for pair in kept}
        verdicts = found.verdicts + Counter(low_precision=len(states))
        verdicts["paired"] -= len(states)
        return PairSet(kept, +verdicts)


def is_right(pair: PreferencePair, traces: Mapping[str, Trace], oracle: Oracle) -> bool | None:
    """What the oracle says about the chosen call of a pair."""
    calls = pair.chosen.get("tool_calls", [])
    return oracle(traces[pair.trace_id].state(pair.turn), canonical_tool_call(calls[0])) if len(calls) == 1 else None


def calibrate(
    pairs: Iterable[PreferencePair], traces: Iterable[Trace], oracle: Oracle, bar: float = BAR
) -> Calibration:
    """Count, by an oracle, how often the chosen side of `pairs` was right, for each kind of vote. Kinds whose 95 %
    interval reaches below `bar` are dropped by `Calibration.apply`."""
    known = {trace.trace_id: trace for trace in traces}
    judged = ((_key(pair), is_right(pair, known, oracle)) for pair in pairs)
    return calibrate_cells(((key, right) for key, right in judged if right is not None), bar)


def calibrate_cells(observations: Iterable[tuple[CellKey, bool]], bar: float = BAR) -> Calibration:
    right: Counter[CellKey] = Counter()
    total: Counter[CellKey] = Counter()
    for key, was_right in observations:
        total[key] += 1
        right[key] += was_right
    ordered = sorted(total, key=lambda key: (key.kind or "", key.n, key.votes))
    return Calibration(cells=tuple(Cell(**k._asdict(), right=right[k], total=total[k]) for k in ordered), bar=bar)


def _key(pair: PreferencePair) -> CellKey:
    return CellKey(pair.agreement.votes, pair.agreement.n, pair.kind)


@lru_cache(maxsize=65536)
def clopper_pearson(successes: int, n: int, level: float = LEVEL) -> tuple[float, float]:
    """The exact binomial interval: covers at least as often as it says, for every n and every precision."""
    tail = (1 - level) / 2
    lo = beta_quantile(tail, successes, n - successes + 1) if successes else 0.0
    hi = beta_quantile(1 - tail, successes + 1, n - successes) if successes < n else 1.0
    return lo, hi


def beta_quantile(share: float, a: float, b: float) -> float:
    lo, hi = 0.0, 1.0
    for _ in range(40):
        middle = (lo + hi) / 2
        lo, hi = (middle, hi) if incomplete_beta(a, b, middle) < share else (lo, middle)
    return (lo + hi) / 2
