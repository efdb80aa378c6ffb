"""Puts together the tree that is graded: the start tree, what a submission may touch, and the trusted files on top.

Reads the task's folder and the submission, writes a new folder. Trusted Python files that the agent does not have are
not among them: their texts are handed over in memory. A path of a submission is used only when it is plain, allowed by
the task (`allowed_paths.py`), and cannot change how the tests are started: configuration, compiled files, and new names
at the top of an import path are dropped and reported.
"""

from __future__ import annotations

import os
import shutil
import unicodedata
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from ..tasks.allowed_paths import is_allowed, steers
from ..tasks.task import Submission, TaskFolder
from ..tasks.test_ids import is_test_file
from ..tasks.trees import content_of, files_of

MAX_SUBMISSION_BYTES = 32 * 1024 * 1024
MAX_SUBMISSION_FILES = 2000
MAX_NAME_BYTES, MAX_PATH_BYTES = 200, 1000


@dataclass(frozen=True)
class Accepted:
    """What is left of a submission."""

    written: Mapping[str, bytes]
    removed: tuple[str, ...]
    dropped: tuple[str, ...]


def restrict(task: TaskFolder, submission: Submission) -> Accepted:
    """Keep what the task lets a solution touch. Too much at once is dropped whole."""
    if len(submission.written) > MAX_SUBMISSION_FILES or sum(map(len, submission.written.values())) > (
        MAX_SUBMISSION_BYTES
    ):
        return Accepted({}, (), (*submission.written, *submission.removed))
    import_roots = _import_roots(task)
    may_touch = {path: _may_touch(task, path) for path in (*submission.written, *submission.removed)}
    written = {
        path: content
        for path, content in submission.written.items()
        if may_touch[path]
        and not _adds_import_name(task, path, import_roots)
        and not any(parent.as_posix() in submission.written for parent in PurePosixPath(path).parents)
    }
    removed = tuple(
        path for path in submission.removed if may_touch[path] and PurePosixPath(path).name != "__init__.py"
    )
    kept = {*written, *removed}
    dropped = tuple(sorted({path for path in (*submission.written, *submission.removed) if path not in kept}))
    return Accepted(written, removed, dropped)


def lay_tree(
    task: TaskFolder,
    accepted: Accepted,
    into: Path,
    trusted_files: Mapping[str, bytes | None],
    places: Iterable[str] = (),
) -> None:
    """Write the graded tree to `into`. `trusted_files` go on top of everything, also the overlay; None removes. Each of
    `places` that has no file yet gets an empty one."""
    shutil.copytree(task.tree, into, symlinks=True, copy_function=_link_or_copy)
    for path in accepted.removed:
        _remove(into, path)
    _write_all(into, accepted.written)
    kept_back = unseen_texts(task)
    laid = {path: task.tree if path in kept_back else task.overlay for path in files_of(task.overlay)}
    _write_all(into, {path: content_of(layer / path) for path, layer in laid.items()})
    _write_all(into, trusted_files)
    _write_all(into, {path: b"" for path in places if not os.path.lexists(into / path)})


def unseen_texts(task: TaskFolder) -> dict[str, str]:
    """Trusted Python files that are not what the agent's tree has at their path."""
    found: dict[str, str] = {}
    for path in files_of(task.overlay):
        content = (task.overlay / path).read_bytes()
        seen = task.tree / path
        if path.endswith(".py") and not (seen.is_file() and seen.read_bytes() == content):
            with suppress(UnicodeDecodeError):
                found[path] = content.decode()
    return found


def _may_touch(task: TaskFolder, path: str) -> bool:
    code_task = task.code_task
    return (
        _is_plain(path)
        and is_allowed(task, path)
        and not steers(path)
        and (code_task.grader == "mutants" or path not in code_task.test_files)
        and not (task.overlay / path).exists()
        and not _passes_link(task.tree, path)
    )


def _is_plain(path: str) -> bool:
    """Relative, in normal form, of printable characters; no spelling that another file system reads as another path."""
    pure = PurePosixPath(path)
    return (
        path != ""
        and path == pure.as_posix()
        and path == unicodedata.normalize("NFKC", path)
        and path.isprintable()
        and not any(character in path for character in '\\:"*?<>|')
        and not pure.is_absolute()
        and len(path.encode()) <= MAX_PATH_BYTES
        and all(len(part.encode()) <= MAX_NAME_BYTES for part in pure.parts)
        and not any(part in (".", "..") or part != part.rstrip(" .") for part in pure.parts)
    )


def _passes_link(tree: Path, path: str) -> bool:
    target = tree / path
    if os.path.islink(target) or target.is_dir():
        return True
    return any(os.path.islink(parent) or parent.is_file() for parent in target.parents if parent.is_relative_to(tree))


def _import_roots(task: TaskFolder) -> frozenset[str]:
    """Folders that stand on the import path in a run: the source roots, and for each test file what pytest adds."""
    roots = {_as_folder(root) for root in task.code_task.source_roots}
    for path in task.code_task.test_files:
        folder = PurePosixPath(path).parent
        while folder.parts and _in_either(task, (folder / "__init__.py").as_posix()):
            folder = folder.parent
        roots.add(_as_folder(folder.as_posix()))
    return frozenset(roots)


def _as_folder(path: str) -> str:
    return "" if path in ("", ".") else f"{path.strip('/')}/"


def _adds_import_name(task: TaskFolder, path: str, import_roots: Iterable[str]) -> bool:
    """A new module or package at the top of an import path could stand in for one of the interpreter or of pytest."""
    for root in import_roots:
        if not path.startswith(root):
            continue
        top, _, below = path.removeprefix(root).partition("/")
        if not below and task.code_task.grader == "mutants" and is_test_file(path):
            continue
        known = _in_either(task, f"{root}{top}") or (task.gold / f"{root}{top}").exists()
        if not known and top.removesuffix(".py") not in task.code_task.packages:
            return True
    return False


def _in_either(task: TaskFolder, path: str) -> bool:
    return (task.tree / path).exists() or (task.overlay / path).exists()


def _link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def _write_all(tree: Path, contents: Mapping[str, bytes | None]) -> None:
    """Every file is written as a new one: those of the tree may be hard links to the task's own."""
    for path, content in contents.items():
        target = tree / path
        target.parent.mkdir(parents=True, exist_ok=True)
        _remove(tree, path)
        if content is not None:
            target.write_bytes(content)


def _remove(tree: Path, path: str) -> None:
    if os.path.lexists(tree / path):
        os.unlink(tree / path)
