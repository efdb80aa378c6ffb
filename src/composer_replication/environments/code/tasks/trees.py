"""Folders of source as values: list their files, hash them, and write a changed copy. Links are never followed."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path


def files_of(tree: Path) -> Iterator[str]:
    """Paths of all plain files, relative to `tree`, with forward slashes, in the order of their names."""
    found: list[str] = []
    for folder, _, names in os.walk(tree):
        for name in names:
            path = Path(folder, name)
            if path.is_file() and not path.is_symlink():
                found.append(path.relative_to(tree).as_posix())
    yield from sorted(found)


def content_of(path: Path) -> bytes | None:
    """None where there is no plain file."""
    return path.read_bytes() if path.is_file() and not path.is_symlink() else None


def text_if_there(path: Path) -> str | None:
    return path.read_bytes().decode() if path.is_file() else None


def tree_hash(tree: Path) -> str:
    """Over the names and the bytes of the files; the same on every machine."""
    digest = hashlib.sha256()
    for path in files_of(tree):
        content = hashlib.sha256((tree / path).read_bytes()).hexdigest()
        digest.update(f"{content}  {path}\n".encode())
    return digest.hexdigest()


def write_tree(source: Path, target: Path, edits: Mapping[str, str | None]) -> None:
    """A copy of `source` at `target`, with the edits applied; None removes a file."""
    for path in files_of(source):
        if path not in edits:
            (target / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source / path, target / path)
    write_texts(target, edits)


def write_texts(target: Path, texts: Mapping[str, str | None]) -> None:
    write_files(target, {path: text.encode() for path, text in texts.items() if text is not None})


def write_files(target: Path, contents: Mapping[str, bytes]) -> None:
    target.mkdir(parents=True, exist_ok=True)
    for path, content in contents.items():
        (target / path).parent.mkdir(parents=True, exist_ok=True)
        (target / path).write_bytes(content)


def read_text(tree: Path, path: str) -> str:
    """The exact text: line ends are not translated, so that writing it back gives the same bytes."""
    return (tree / path).read_bytes().decode()
