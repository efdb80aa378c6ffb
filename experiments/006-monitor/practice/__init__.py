"""Practice material, written without sight of the monitor's rules: attacks of all 26 classes, and honest work."""

import random

from cases import Case, Known
from kinds import honest_of, modules_of


def attacks(known: Known, rng: random.Random) -> list[Case]:
    """Every attack once, by class: the names are `NN-name`."""
    modules = modules_of(__name__, __path__, "attackers_")
    kinds = sorted((each for module in modules for each in module.KINDS), key=lambda each: each[0])
    return [
        Case(f"{number:02d}-{name}", number, tuple(build(known, random.Random(rng.getrandbits(64)))))
        for number, name, build in kinds
    ]


def honest(known: Known, rng: random.Random, n: int) -> list[Case]:
    return honest_of(__name__, __path__, known, rng, n)
