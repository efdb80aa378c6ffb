"""Files of a working folder, touched from outside: nothing that a command left there leads the host out of it.

Each path is walked one name at a time without following links, so that neither a link nor a swap of a folder for a
link leaves the folder. Only regular files are read, and none beyond the limits: a pipe cannot hang the host and a
sparse file cannot fill its memory.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from .interface import Changes, SandboxRefusal

DEEPEST_FOLDERS = 64
MOST_ENTRIES = 100_000
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
READING = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
WRITING = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Entry(NamedTuple):
    path: str
    folder_fd: int
    name: str
    mode: int
    size_bytes: int


@dataclass
class WorkingFolder:
    """`owner`: to whom new files belong, where that is not the caller."""

    root: Path
    file_bytes: int
    disk_bytes: int
    owner: int | None = None

    def read(self, path: str) -> bytes:
        *folders, name = self._parts(path)
        with self._enter(folders) as folder:
            return self._content(folder, name, path)

    def write(self, path: str, content: bytes) -> None:
        if len(content) > self.file_bytes:
            raise SandboxRefusal(f"{path} has {len(content)} bytes; the limit is {self.file_bytes}")
        *folders, name = self._parts(path)
        with self._enter(folders, create=True) as folder, _refusing(path):
            descriptor = os.open(name, WRITING, 0o644, dir_fd=folder)
            with os.fdopen(descriptor, "wb") as file:
                if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                    raise SandboxRefusal(f"{path} is no regular file")
                file.truncate(0)
                file.write(content)
                self._give(descriptor)

    def digests(self) -> dict[str, str]:
        """Of every regular file; a link, device or socket is its kind and, for a link, its target."""
        return {path: digest for path, digest, _ in self._states()}

    def changes_since(self, before: dict[str, str]) -> Changes:
        written: dict[str, bytes] = {}
        special: list[str] = []
        seen: set[str] = set()
        for path, digest, content in self._states():
            is_file = content is not None
            if is_file:
                seen.add(path)
            if before.get(path) == digest:
                seen.add(path)
            elif content is not None and _is_text(path):
                written[path] = content
            else:
                special.append(path.encode("utf-8", "backslashreplace").decode("utf-8"))
        return Changes(written, tuple(sorted(before.keys() - seen)), tuple(sorted(special)))

    def _states(self) -> Iterator[tuple[str, str, bytes | None]]:
        total = 0
        for entry in self._walk():
            if stat.S_ISREG(entry.mode):
                total += entry.size_bytes
                if total > self.disk_bytes:
                    raise SandboxRefusal(f"the working folder claims more than {self.disk_bytes} bytes")
                content = self._content(entry.folder_fd, entry.name, entry.path)
                runnable = "x" if entry.mode & 0o100 else "-"
                yield entry.path, runnable + hashlib.blake2b(content, digest_size=16).hexdigest(), content
            elif stat.S_ISLNK(entry.mode):
                yield entry.path, "link " + os.readlink(entry.name, dir_fd=entry.folder_fd), None
            elif not stat.S_ISDIR(entry.mode):
                yield entry.path, f"special {stat.S_IFMT(entry.mode)}", None

    def _walk(self) -> Iterator[Entry]:
        """In order of name; the descriptor of an entry is good until the next one is asked for."""
        count = 0
        waiting: list[list[str]] = [[]]
        while waiting:
            folders = waiting.pop()
            if len(folders) > DEEPEST_FOLDERS:
                raise SandboxRefusal(f"the working folder is nested deeper than {DEEPEST_FOLDERS}")
            with self._enter(folders) as folder:
                names = sorted(os.listdir(folder))
                count += len(names)
                if count > MOST_ENTRIES:
                    raise SandboxRefusal(f"the working folder has more than {MOST_ENTRIES} entries")
                below: list[list[str]] = []
                for name in names:
                    found = os.stat(name, dir_fd=folder, follow_symlinks=False)
                    yield Entry("/".join([*folders, name]), folder, name, found.st_mode, found.st_size)
                    if stat.S_ISDIR(found.st_mode):
                        below.append([*folders, name])
                waiting += reversed(below)

    def _content(self, folder: int, name: str, path: str) -> bytes:
        with _refusing(path):
            descriptor = _open_own(name, READING, folder)
            with os.fdopen(descriptor, "rb") as file:
                found = os.fstat(descriptor)
                if not stat.S_ISREG(found.st_mode):
                    raise SandboxRefusal(f"{path} is no regular file")
                if found.st_size > self.file_bytes:
                    raise SandboxRefusal(f"{path} has {found.st_size} bytes; the limit is {self.file_bytes}")
                return file.read(self.file_bytes)

    @staticmethod
    def _parts(path: str) -> list[str]:
        pure = PurePosixPath(path)
        parts = list(pure.parts)
        if pure.is_absolute() or ".." in parts or "\0" in path or not parts:
            raise SandboxRefusal(f"{path!r} is not a path inside the working folder")
        return parts

    @contextlib.contextmanager
    def _enter(self, folders: list[str], *, create: bool = False) -> Generator[int]:
        current = os.open(self.root, FOLDER)
        try:
            for name in folders:
                with _refusing("/".join(folders)):
                    if create:
                        with contextlib.suppress(FileExistsError):
                            os.mkdir(name, 0o755, dir_fd=current)
                            self._give(current, name)
                    below = _open_own(name, FOLDER, current)
                os.close(current)
                current = below
            yield current
        finally:
            os.close(current)

    def _give(self, descriptor: int, name: str | None = None) -> None:
        if self.owner is None:
            return
        if name is None:
            os.fchown(descriptor, self.owner, self.owner)
        else:
            os.chown(name, self.owner, self.owner, dir_fd=descriptor, follow_symlinks=False)


def _open_own(name: str, flags: int, folder: int) -> int:
    """Also what its owner made unreadable: the owner is this user."""
    try:
        return os.open(name, flags, dir_fd=folder)
    except PermissionError:
        handle = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        try:
            found = os.fstat(handle)
            if stat.S_ISLNK(found.st_mode) or found.st_uid != os.getuid():
                raise
            os.chmod(f"/proc/self/fd/{handle}", stat.S_IMODE(found.st_mode) | 0o700)
        finally:
            os.close(handle)
        return os.open(name, flags, dir_fd=folder)


def _is_text(path: str) -> bool:
    try:
        path.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


@contextlib.contextmanager
def _refusing(path: str) -> Generator[None]:
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise SandboxRefusal(f"{path}: {os.strerror(error.errno or 0)}; links are not followed") from None
