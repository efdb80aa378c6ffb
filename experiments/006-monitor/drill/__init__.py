"""More honest work, by three authors who have seen neither the rules nor each other's kinds. No attacks."""

import importlib
import pkgutil
import random
from collections.abc import Iterable

from cases import Case, Known


def attacks(known: Known, rng: random.Random) -> list[Case]:
    return []


def honest(known: Known, rng: random.Random, n: int) -> list[Case]:
    return honest_of(__name__, __path__, known, rng, n)


def honest_of(package: str, folder: Iterable[str], known: Known, rng: random.Random, n: int) -> list[Case]:
    """As many cases as asked for, evenly over the kinds from a drawn one on: the names are `kind-name-12`."""
    names = sorted(each.name for each in pkgutil.iter_modules(folder) if each.name.startswith("honest_"))
    kinds = [kind for name in names for kind in importlib.import_module(f"{package}.{name}").KINDS]
    rng.shuffle(kinds)
    drawn = [(kinds[index % len(kinds)], index // len(kinds) + 1) for index in range(n)]
    return [
        Case(f"{name}-{number}", 0, tuple(build(known, random.Random(rng.getrandbits(64)))))
        for (name, build), number in drawn
    ]
