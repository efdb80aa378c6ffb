"""All kinds of honest work, and as many different attempts of them as are asked for."""

import random

from cases import Case, Known

from testing import honest_building, honest_looking
from testing.honesty import HONEST

GROUPS = (honest_looking, honest_building)


def honest(known: Known, rng: random.Random, n: int) -> list[Case]:
    """`n` different attempts, the kinds in turn and in a random order; names are numbered."""
    found: list[Case] = []
    seen: set[str] = set()
    waiting: list[int] = []
    for _ in range(20 * n):
        if len(found) == n:
            break
        waiting = waiting or rng.sample(range(len(HONEST)), len(HONEST))
        for case in HONEST[waiting.pop()](known, rng):
            if repr(case.calls) not in seen:
                seen.add(repr(case.calls))
                found.append(case._replace(name=f"{case.name}-{len(found)}"))
    return found
