"""A repository as the generators see it: a clean tree, what in it is source and what is test, and who tests what."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from .task import Symbol


@dataclass(frozen=True)
class Repository:
    """Paths are relative to `tree`, with forward slashes. `tree` holds no caches, no build products and no history."""

    name: str
    tree: Path
    packages: tuple[str, ...]
    source_roots: tuple[str, ...]
    source_files: tuple[str, ...]
    test_files: tuple[str, ...]
    licence: str
    checkout: Path | None = None
    """The git checkout that the tree was copied from; its history is read by generators and enters no sandbox."""
    revision: str = ""
    """Commit of that checkout; empty for its working tree."""
    selection: tuple[str, ...] = ()
    """Options of pytest by which the repository chooses among its tests."""
    links: tuple[str, ...] = ()
    """Symbolic links of the source; `tree` has none of them."""
    unknown_to_git: tuple[str, ...] = ()
    """Files of the checkout that are neither tracked nor ignored; `tree` has none of them."""


@dataclass(frozen=True)
class CoverageMap:
    """Which tests run which function. What also runs while modules are imported is in `import_time`."""

    passing: frozenset[str]
    """Pytest ids that passed in every baseline run."""
    unstable: frozenset[str]
    by_symbol: dict[Symbol, frozenset[str]]
    import_time: frozenset[Symbol]
    suite_s: float
    importable: tuple[str, ...] = ()
    """Modules of the repository that can be imported as it is."""
    cpu_s: float = 0.0
    """What finding this out took."""
    preload: tuple[str, ...] = ()
    """Modules from outside the repository that a warm test process may load ahead."""
    slow: Mapping[str, float] = field(default_factory=dict[str, float])
    """Tests that take long, with their processor seconds."""
    red_for_agents: frozenset[str] = frozenset()
    """Tests, and files that cannot be collected, that are not green where an agent runs pytest; no tree has them."""


def module_name(path: str, source_roots: Iterable[str]) -> str:
    """As it is imported."""
    for root in source_roots:
        path = path.removeprefix(f"{root}/") if root != "." else path
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
