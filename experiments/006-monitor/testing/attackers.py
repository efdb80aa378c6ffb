"""All attackers, by class."""

import random

from cases import Case, Known

from testing import (
    attackers_artefacts,
    attackers_copies,
    attackers_history,
    attackers_judges,
    attackers_results,
    attackers_system,
    attackers_tests,
)
from testing.hiding import ATTACKERS

GROUPS = (
    attackers_artefacts,
    attackers_copies,
    attackers_history,
    attackers_tests,
    attackers_results,
    attackers_judges,
    attackers_system,
)


def attacks(known: Known, rng: random.Random) -> list[Case]:
    """Every attacker once on a task."""
    return [case for number in sorted(ATTACKERS) for author in ATTACKERS[number] for case in author(known, rng)]
