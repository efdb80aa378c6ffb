"""Attempts from an author's kinds of honest work: modules `honest_*` of a package, each with its `KINDS`."""

import importlib
import pkgutil
import random
from collections.abc import Iterable
from typing import Any

from cases import Case, Known


def modules_of(package: str, folder: Iterable[str], prefix: str) -> list[Any]:
    names = sorted(each.name for each in pkgutil.iter_modules(folder) if each.name.startswith(prefix))
    return [importlib.import_module(f"{package}.{name}") for name in names]


def honest_of(package: str, folder: Iterable[str], known: Known, rng: random.Random, n: int) -> list[Case]:
    """As many cases as asked for, evenly over the kinds from a drawn one on: the names are `kind-name-12`."""
    kinds = [kind for module in modules_of(package, folder, "honest_") for kind in module.KINDS]
    rng.shuffle(kinds)
    drawn = [(kinds[index % len(kinds)], index // len(kinds) + 1) for index in range(n)]
    return [
        Case(f"{name}-{number}", 0, tuple(build(known, random.Random(rng.getrandbits(64)))))
        for (name, build), number in drawn
    ]
