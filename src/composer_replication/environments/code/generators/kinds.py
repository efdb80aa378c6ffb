"""The generators of code tasks, by name. A generator reads a repository and its coverage map and proposes candidates.
It runs nothing and decides nothing: the gates do.

A third party's generator is named by its dotted path, `package.module:function`. The modes that a generator knows are
`MODES` of its module; without it, the generator has to check them itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import get_args

from composer_replication.errors import UsageError

from ..tasks.repository import CoverageMap, Repository
from ..tasks.task import Candidate, Grain, Level, Rejection

OWN = "composer_replication.environments.code.generators"
GENERATORS = {
    "feature_deletion": f"{OWN}.feature_deletion.generate:propose",
    "bug_injection": f"{OWN}.bug_injection.generate:propose",
    "test_writing": f"{OWN}.test_writing.generate:propose",
    "commits": f"{OWN}.commits.generate:propose",
}


@dataclass(frozen=True)
class GeneratorSettings:
    """The same settings on the same repository propose the same candidates in the same order."""

    seed: int = 0
    limit: int = 100
    """The most candidates to propose."""
    level: Level = "L0"
    modes: tuple[str, ...] = ()
    """Empty: all that the generator knows."""
    grains: tuple[Grain, ...] = ()
    """Empty: all that the generator knows."""


Generator = Callable[[Repository, CoverageMap, GeneratorSettings], Iterator[Candidate | Rejection]]
"""A rejection says why something that looked like a candidate is none; the funnel counts it as filtered."""


def find_generator(name: str) -> Generator:
    """By its name in `GENERATORS`, or by its dotted path."""
    dotted = GENERATORS.get(name, name)
    module_name, _, function = dotted.partition(":")
    if not function:
        raise UsageError(f"there is no generator {name}", f"one of {', '.join(GENERATORS)}, or package.module:function")
    try:
        return getattr(import_module(module_name), function)
    except (ImportError, AttributeError) as error:
        if name in GENERATORS:
            raise
        raise UsageError(f"cannot load the generator {dotted}: {error}", "check its dotted path") from error


def check_modes(names: Sequence[str], wanted: Sequence[str]) -> None:
    """Each mode belongs to one of the generators, and each generator gets one. Of a generator whose module has no
    `MODES`, nothing is known: it may take any."""
    modes_of = {name: _modes_of(name) for name in names}
    known = [modes for modes in modes_of.values() if modes is not None]
    if not wanted or not known:
        return
    all_known = [mode for modes in known for mode in modes]
    for mode in wanted:
        if mode not in all_known and len(known) == len(modes_of):
            raise UsageError(f"{' and '.join(names)}: there is no mode {mode}", f"one of {', '.join(all_known)}")
    for name, modes in modes_of.items():
        if modes is not None and not set(modes) & set(wanted):
            raise UsageError(
                f"{name} has no mode {', '.join(wanted)}", f"leave it out, or add one of {', '.join(modes)}"
            )


def _modes_of(name: str) -> tuple[str, ...] | None:
    find_generator(name)
    return getattr(import_module(GENERATORS.get(name, name).partition(":")[0]), "MODES", None)


def generator_settings(
    *, seed: int, limit: int, level: str, modes: tuple[str, ...], grains: tuple[str, ...]
) -> GeneratorSettings:
    """From what a person typed."""
    levels: dict[str, Level] = {name: name for name in get_args(Level)}
    known: dict[str, Grain] = {name: name for name in get_args(Grain)}
    if level not in levels:
        raise UsageError(f"there is no level {level}", f"one of {', '.join(levels)}")
    unknown = [name for name in grains if name not in known]
    if unknown:
        raise UsageError(f"there is no grain {unknown[0]}", f"one of {', '.join(known)}")
    return GeneratorSettings(seed, limit, levels[level], modes, tuple(known[name] for name in grains))
