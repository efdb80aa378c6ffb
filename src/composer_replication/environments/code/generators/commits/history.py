"""The commits of a git checkout that changed the package and its tests together.

Reads the history by git, with hooks, monitors and external diffs switched off; writes nothing. Only the main line is
followed: a merge counts as one change against its first parent, with the messages of what was merged. The further back
a commit, the more of it was changed again since: so the main line is cut into stretches of commits that changed source
and tests. A commit is taken back from the newest state of its stretch, and one survey of the tests serves all of it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from composer_replication.errors import UsageError

from ...tasks.loading import is_test_path, load_repository
from ...tasks.repository import Repository

RECORD, FIELD = "\x1e", "\x1f"
FORMAT = f"{RECORD}%H{FIELD}%P{FIELD}%B{FIELD}"
QUIET = ("-c", "core.fsmonitor=false", "-c", "core.quotepath=false", "-c", "log.showSignature=false")
STRETCH = 16
"""Of 100 commits of three histories 61 to 78 could be taken back at this length, 96 to 100 at a length of 1."""
NOT_SOURCE = ("setup.py", "docs/", "doc/", "examples/", "benchmarks/", "conftest.py")


@dataclass(frozen=True)
class Commit:
    id: str
    parents: tuple[str, ...]
    message: str
    changed: dict[str, str]
    """Path -> A (added), M (modified), D (deleted). Renames are a deletion and an addition."""


class GitHistory:
    """`checkout` is the folder that holds `.git`."""

    def __init__(self, checkout: Path) -> None:
        git = shutil.which("git")
        if git is None:
            raise UsageError("reading a history needs git", "install git, or choose another generator")
        self._command = (git, "-C", str(checkout), *QUIET)

    @cached_property
    def commits(self) -> tuple[Commit, ...]:
        """The newest first; the first commit of all has nothing before it, and is left out."""
        wanted = ("--first-parent", "-m", "--no-renames", "--name-status", "--no-ext-diff", f"--format={FORMAT}")
        log = self._ask("log", *wanted) or ""
        found = (_commit(record) for record in log.split(RECORD)[1:])
        return tuple(commit for commit in found if commit.parents)

    @cached_property
    def people(self) -> frozenset[str]:
        """Names of authors and committers."""
        names = (self._ask("log", "--format=%an%n%cn") or "").splitlines()
        return frozenset(name.strip() for name in names if name.strip())

    def text(self, revision: str, path: str) -> str | None:
        """None where there is no such file, or none in UTF-8."""
        return self._ask("cat-file", "blob", f"{revision}:{path}")

    def merged_messages(self, commit: Commit) -> str:
        """Of a merge: what its other parents brought."""
        others = commit.parents[1:]
        brought = self._ask("log", "--no-merges", "--reverse", "--format=%B", *others, f"^{commit.parents[0]}")
        return (brought or "") if others else ""

    def write_tree(self, revision: str, folder: Path) -> None:
        """All files of a revision, those too that an archive would leave out; the checkout stays as it is."""
        folder.mkdir(parents=True)
        with tempfile.TemporaryDirectory(prefix="recompose-") as scratch:
            env = {**os.environ, "GIT_INDEX_FILE": str(Path(scratch) / "index")}
            for arguments in (("read-tree", revision), ("checkout-index", "--all", f"--prefix={folder}/")):
                argv = [*self._command, *arguments]
                ended = subprocess.run(argv, capture_output=True, env=env, check=False)  # noqa: S603
                if ended.returncode:
                    said = ended.stderr.decode(errors="replace").strip()[-200:]
                    raise UsageError(f"git cannot write {revision}: {said}", "fetch the whole history")

    def _ask(self, *arguments: str) -> str | None:
        ended = subprocess.run([*self._command, *arguments], capture_output=True, check=False)  # noqa: S603
        try:
            return ended.stdout.decode("utf-8") if ended.returncode == 0 else None
        except UnicodeDecodeError:
            return ended.stdout.decode("utf-8", "replace") if arguments[0] == "log" else None


def _commit(record: str) -> Commit:
    identity, parents, message, files = record.split(FIELD, 3)
    lines = (line.split("\t", 1) for line in files.splitlines() if "\t" in line)
    return Commit(identity, tuple(parents.split()), message.strip(), {path: kind for kind, path in lines})


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
