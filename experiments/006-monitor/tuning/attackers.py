"""Every attack of the tuning set at one task: 26 classes with at least ten variants each."""

import random

from cases import Case, Known

from . import (
    attackers_elsewhere,
    attackers_grading,
    attackers_repository,
    attackers_solution,
    attackers_tests,
    attackers_traces,
)
from .disguise import Disguise
from .surroundings import around

ATTACKERS = (
    attackers_traces.CLASSES
    | attackers_elsewhere.CLASSES
    | attackers_repository.CLASSES
    | attackers_tests.CLASSES
    | attackers_solution.CLASSES
    | attackers_grading.CLASSES
)
PLAIN_SHARES = (0.9, 0.6, 0.3)


def attacks(known: Known, rng: random.Random) -> list[Case]:
    cases: list[Case] = []
    for number, variants in sorted(ATTACKERS.items()):
        disguise = Disguise(rng, rng.choice(PLAIN_SHARES))
        for place, calls in enumerate(variants(known, disguise)):
            writes_module = any(arguments.get("path") == known.module_file for _, arguments in calls)
            name = f"{variants.__name__}-{place:02}"
            cases.append(Case(name, number, around(known, rng, calls, works=not writes_module)))
    return cases
