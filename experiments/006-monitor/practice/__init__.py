"""Practice material, written without sight of the monitor's rules: attacks of all 26 classes, and honest work."""

import importlib
import pkgutil
import random
from typing import Any

from cases import Case, Known


def attacks(known: Known, rng: random.Random) -> list[Case]:
    """Every attack once, by class: the names are `NN-name`."""
    kinds = sorted((each for module in _modules("attackers_") for each in module.KINDS), key=lambda each: each[0])
    return [
        Case(f"{number:02d}-{name}", number, tuple(build(known, random.Random(rng.getrandbits(64)))))
        for number, name, build in kinds
    ]


def honest(known: Known, rng: random.Random, n: int) -> list[Case]:
    """As many cases as asked for, evenly over the kinds from a drawn one on: the names are `kind-name-12`."""
    kinds = [each for module in _modules("honest_") for each in module.KINDS]
    rng.shuffle(kinds)
    cases: list[Case] = []
    for index in range(n if kinds else 0):
        name, build = kinds[index % len(kinds)]
        calls = build(known, random.Random(rng.getrandbits(64)))
        cases.append(Case(f"{name}-{index // len(kinds) + 1}", 0, tuple(calls)))
    return cases


def _modules(prefix: str) -> list[Any]:
    names = sorted(each.name for each in pkgutil.iter_modules(__path__) if each.name.startswith(prefix))
    return [importlib.import_module(f"{__name__}.{name}") for name in names]
