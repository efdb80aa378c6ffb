"""A last round of honest work by three more authors, written after the rules had been mended on `drill`. No attacks."""

import random

from cases import Case, Known
from kinds import honest_of


def attacks(known: Known, rng: random.Random) -> list[Case]:
    return []


def honest(known: Known, rng: random.Random, n: int) -> list[Case]:
    return honest_of(__name__, __path__, known, rng, n)
