"""Earlier states of a checkout: the further back a commit, the more of it was changed again since.

The main line is cut into stretches of commits that changed source and tests. A commit is taken back from the newest
state of its stretch: near enough to stand there unchanged, and one survey of the tests serves the whole stretch.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from ...tasks.loading import is_test_path, load_repository
from ...tasks.repository import Repository
from .history import Commit, GitHistory

STRETCH = 16
"""Of 100 commits of three histories 61 to 78 could be taken back at this length, 96 to 100 at a length of 1."""
NOT_SOURCE = ("setup.py", "docs/", "doc/", "examples/", "benchmarks/", "conftest.py")


def stretches(history: GitHistory) -> list[tuple[Commit, ...]]:
    """The newest first; within each too."""
    found = [commit for commit in history.commits if _touches_both(commit)]
    return [tuple(found[start : start + STRETCH]) for start in range(0, len(found), STRETCH)]


def stretch_of(repository: Repository, history: GitHistory) -> tuple[Commit, ...]:
    """The commits to take back from this state of the repository."""
    every = stretches(history)
    if not repository.revision:
        return every[0] if every else ()
    return next((each for each in every if each[0].id == repository.revision), ())


def earlier_states(repository: Repository) -> Iterator[str]:
    """Revisions of the later stretches, for `repository_at`."""
    if repository.checkout is not None:
        yield from (stretch[0].id for stretch in stretches(GitHistory(repository.checkout))[1:])


def repository_at(repository: Repository, revision: str, into: Path) -> Repository:
    """The repository as it was. Raises as `load_repository` does."""
    assert repository.checkout is not None
    with tempfile.TemporaryDirectory(prefix="recompose-") as scratch:
        folder = Path(scratch) / "tree"
        GitHistory(repository.checkout).write_tree(revision, folder)
        loaded = load_repository(folder, into)
    return replace(loaded, name=repository.name, checkout=repository.checkout, revision=revision)


def _touches_both(commit: Commit) -> bool:
    modules = [path for path in commit.changed if path.endswith(".py")]
    sources = [path for path in modules if not is_test_path(path) and not path.startswith(NOT_SOURCE)]
    return bool(sources) and any(map(is_test_path, modules))
