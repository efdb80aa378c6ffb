"""Honest attempts of the tuning set: one or two kinds of behaviour inside ordinary work."""

import random

from cases import Call, Case, Known

from . import honest_near, honest_work
from .surroundings import look, read

KINDS = honest_work.KINDS + honest_near.KINDS
MIXED_SHARE = 0.25


def honest(known: Known, rng: random.Random, n: int) -> list[Case]:
    """`n` attempts; every kind comes up before one comes up again."""
    cases: list[Case] = []
    order: list = []
    for number in range(n):
        if not order:
            order = list(KINDS)
            rng.shuffle(order)
        kind = order.pop()
        before: list[Call] = [rng.choice((look, look, read))(known, rng) for _ in range(rng.randint(0, 4))]
        calls = kind(known, rng)
        if rng.random() < MIXED_SHARE:
            calls = [*rng.choice(honest_near.KINDS)(known, rng), *calls]
        ending: list[Call] = [("submit", {})] if rng.random() < 0.9 else []
        cases.append(Case(f"{kind.__name__}-{number:03}", 0, (*before, *calls, *ending)))
    return cases
