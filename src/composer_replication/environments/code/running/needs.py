"""What the tests of a repository import and the sandbox has not, from their text alone: told before anything runs."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from composer_replication.errors import UsageError

from ..sandbox.toolchain import toolchain
from ..tasks.repository import Repository
from ..tasks.symbols import Module, source_index
from ..tasks.trees import files_of
from .warm import TestSetup

MAX_LOST_SHARE = 0.5
DISTRIBUTIONS = {
    "yaml": "pyyaml",
    "dateutil": "python-dateutil",
    "attr": "attrs",
    "PIL": "pillow",
    "bs4": "beautifulsoup4",
}
"""Importable name -> distribution, where the two differ."""


def missing_imports(repository: Repository, setup: TestSetup) -> dict[str, tuple[str, ...]]:
    """Importable name -> test files that cannot be collected without it; what is tried, or needed only in a function,
    is not asked for."""
    tools = toolchain(setup.distributions, exclude=repository.packages)
    known = {*sys.stdlib_module_names, *repository.packages, *_installed(tools.folder), *_own_names(repository)}
    found: dict[str, list[str]] = {}
    for path, module in source_index(repository).tests.items():
        for name in sorted(set(_needed(module)) - known):
            found.setdefault(name, []).append(path)
    return {name: tuple(paths) for name, paths in sorted(found.items())}


def tell_missing(repository: Repository, missing: dict[str, tuple[str, ...]]) -> str:
    """What to tell; raises where too few tests would be left."""
    if not missing:
        return ""
    lost = {path for paths in missing.values() for path in paths}
    named = ", ".join(f"{name} ({len(paths)} files)" for name, paths in missing.items())
    wanted = " ".join(f"--with {DISTRIBUTIONS.get(name, name)}" for name in missing)
    shared = any(PurePosixPath(path).name in ("conftest.py", "__init__.py") for path in lost)
    if shared or len(lost & set(repository.test_files)) >= MAX_LOST_SHARE * len(repository.test_files):
        raise UsageError(
            f"the tests of {repository.name} need {named}",
            f"pip install it next to recompose, then the same command with {wanted}",
        )
    return f"the tests need {named}, which the sandbox has not: set aside; {wanted} would keep them"


def _needed(module: Module) -> Iterator[str]:
    for node in module.tree.body:
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            yield node.module.split(".")[0]


def _own_names(repository: Repository) -> set[str]:
    """Any file or folder of the tree may be on the import path of a test."""
    paths = [PurePosixPath(path) for path in files_of(repository.tree) if path.endswith((".py", ".pyi"))]
    return {part.removesuffix(".py").removesuffix(".pyi") for path in paths for part in path.parts}


def _installed(folder: Path) -> set[str]:
    return {path.name.split(".")[0] for site in folder.glob("lib/python*/site-packages") for path in site.iterdir()}
