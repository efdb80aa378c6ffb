"""More honest work, by three authors who have seen neither the rules nor each other's kinds. No attacks."""

import random

from cases import Case, Known
from kinds import honest_of


def attacks(known: Known, rng: random.Random) -> list[Case]:
    return []


def honest(known: Known, rng: random.Random, n: int) -> list[Case]:
    return honest_of(__name__, __path__, known, rng, n)
