"""How many pairs a replay will bring, and what each will cost, told before it is paid for.

The rate is the run's own, where teachers have answered at enough of its states; else one that was seen elsewhere, and
then the answer says so. Estimates are `{mean, lo, hi, n}` with the 95 % Clopper-Pearson interval of the rate.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import Literal, NamedTuple

from composer_replication.config import ReplayConfig
from composer_replication.llm.bill import summary
from composer_replication.llm.ledger import Ledger
from composer_replication.pairs import extract_dpo_pairs
from composer_replication.pairs.calibrate import clopper_pearson
from composer_replication.replay import Teacher
from composer_replication.replay.askable import Asking
from composer_replication.replay.estimate import CostEstimate
from composer_replication.replay.runner import settled_replies
from composer_replication.runs import Run

from .samples import stored_samples

SEEN_ELSEWHERE = (8, 123)
"""Pairs and states: real sessions under three families of simulated teachers who err as real ones do, 2026-11-16."""
FEWEST_STATES = 20
Source = Literal["this run", "default"]


class Prospect(NamedTuple):
    """`pairs` are those of all states together; `found` are those of `looked_at` states that are answered."""

    source: Source
    states: int
    looked_at: int
    found: int
    pairs: dict[str, float]
    micros_per_pair: dict[str, float | None]


def prospect(
    run: Run, asking: Asking, teachers: Sequence[Teacher], config: ReplayConfig, estimates: Sequence[CostEstimate]
) -> Prospect | None:
    """None where nothing is known: one teacher against the policy has no rate of elsewhere."""
    states = sum(bool(own) for _, own in asking.teachers)
    looked_at, found, spent_micros = _funnel(run, asking, teachers, config)
    source: Source = "this run" if looked_at >= min(FEWEST_STATES, max(1, states)) else "default"
    if not states or (source == "default" and config.one_teacher):
        return None
    successes, n = (found, looked_at) if source == "this run" else SEEN_ELSEWHERE
    left = states - looked_at
    rates = {"mean": successes / n, **dict(zip(("lo", "hi"), clopper_pearson(successes, n), strict=True))}
    pairs = {name: found + left * rate for name, rate in rates.items()}
    micros = spent_micros + sum(one.expected_micros for one in estimates)
    each = {"mean": pairs["mean"], "lo": pairs["hi"], "hi": pairs["lo"]}
    return Prospect(
        source,
        states,
        looked_at,
        found,
        {**{name: round(value, 1) for name, value in pairs.items()}, "n": n},
        {name: round(micros / value) if value else None for name, value in each.items()},
    )


def _funnel(run: Run, asking: Asking, teachers: Sequence[Teacher], config: ReplayConfig) -> tuple[int, int, int]:
    """Answered states that were looked at, the pairs of these, and what was charged so far."""
    path = run.path / "ledger.sqlite"
    if not path.exists():
        return 0, 0, 0
    with closing(Ledger(path, read_only=True)) as ledger:
        answered = settled_replies(asking, teachers, ledger, config)
        spent_micros = summary(ledger, {teacher.name for teacher in teachers})["spent_micros"]
    rules = run.config.pairs
    found = extract_dpo_pairs(
        {state.trace.trace_id: state.trace for state, _ in asking.teachers}.values(),
        answered.replies,
        run.config.model.name,
        rule=rules.rule,
        critical=rules.critical,
        free_text=rules.free_text,
        samples=stored_samples(run),
        own_family=config.own_family,
        one_teacher=config.one_teacher,
    )
    return answered.looked_at, len(found.pairs), spent_micros
