"""The folder of one sandbox on the host: where its working folder, its /tmp and its home lie, and how they are removed.

Writes one folder below the system's temporary folder. Where this process may mount, the part that commands write to is
a tmpfs of `disk_bytes`, and the kernel holds the bound to the byte. Elsewhere it is plain disk: the size of a file is
bounded by the kernel, the sum by a look every half second while a command runs, so that a quick writer goes over it.
A folder whose owner has died is removed by the next sandbox that opens.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import shutil
import stat
import subprocess
import tempfile
from pathlib import Path

from .interface import SandboxFailure, SandboxRefusal
from .users import reachable_by

MNT_DETACH, MS_NOSUID, MS_NODEV = 2, 2, 4
LARGEST_TREE_ENTRIES = 200_000
BLOCK_BYTES = 512  # what `st_blocks` counts; an empty file is charged one
PARTS = ("work", "tmp", "home")
_libc = ctypes.CDLL(None, use_errno=True)


class Workspace:
    """`area` holds what commands write; `private` what the backend writes for itself."""

    def __init__(self, disk_bytes: int, user: int | None = None) -> None:
        """`user`: who the commands run as, where that is not the caller."""
        parent = _parent()
        if not reachable_by(user, parent.parent):
            raise SandboxFailure(f"other users cannot pass through {parent.parent}", "export TMPDIR=/var/tmp")
        _sweep(parent)
        self.disk_bytes = disk_bytes
        self.folder = Path(tempfile.mkdtemp(dir=parent))
        self._owner = os.getpid()
        self._lock = _take(self.folder / "being-made")
        assert self._lock is not None
        # Under its name only when it is held: another thread's sweep takes what it can lock.
        (self.folder / "being-made").rename(self.folder / "lock")
        self.area = self.folder / "area"
        self.private = self.folder / "private"
        self.area.mkdir()
        self.private.mkdir()
        self.bounded_by_kernel = _mount_tmpfs(self.area, disk_bytes)
        for part in PARTS:
            (self.area / part).mkdir(mode=0o755)
        if user is not None:
            os.chmod(parent, 0o711)  # noqa: S103 - to pass through, not to list
            os.chmod(self.folder, 0o711)  # noqa: S103
            for part in PARTS:
                os.chown(self.area / part, user, user)

    @property
    def work(self) -> Path:
        return self.area / "work"

    def fill(self, tree: Path, user: int | None = None) -> None:
        try:
            shutil.copytree(tree, self.work, symlinks=True, dirs_exist_ok=True)
        except (OSError, shutil.Error) as error:
            raise SandboxRefusal(f"{tree} does not fit into the sandbox: {_first(error)}") from None
        if user is not None:
            for folder, _, files in os.walk(self.work):
                for path in (folder, *(os.path.join(folder, file) for file in files)):
                    os.chown(path, user, user, follow_symlinks=False)
        if not self.bounded_by_kernel and self.used_bytes() > self.disk_bytes:
            raise SandboxRefusal(f"{tree} is larger than the {self.disk_bytes} bytes of the sandbox")

    def used_bytes(self) -> int:
        if self.bounded_by_kernel:
            fs = os.statvfs(self.area)
            return (fs.f_blocks - fs.f_bfree) * fs.f_frsize
        total, waiting = 0, [str(self.area)]
        while waiting:
            with contextlib.suppress(OSError), os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    with contextlib.suppress(OSError):
                        total += max(1, entry.stat(follow_symlinks=False).st_blocks) * BLOCK_BYTES
                        if entry.is_dir(follow_symlinks=False):
                            waiting.append(entry.path)
        return total

    def overfull(self) -> bool:
        return not self.bounded_by_kernel and self.used_bytes() > self.disk_bytes

    def remove(self) -> None:
        """A fork of the owner has the object too, but the folder is not its own."""
        if self._lock is not None and self._owner == os.getpid():
            _remove(self.folder)
            os.close(self._lock)
            self._lock = None


def _parent() -> Path:
    parent = Path(tempfile.gettempdir()) / f"recompose-sandboxes-{os.getuid()}"
    with contextlib.suppress(FileExistsError):
        parent.mkdir(mode=0o700)
    found = parent.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
        raise SandboxFailure(f"{parent} belongs to someone else", "export TMPDIR=$HOME/tmp")
    return parent


def _take(path: Path) -> int | None:
    """None where a living process holds it."""
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        return None
    return lock


def _sweep(parent: Path) -> None:
    for folder in parent.iterdir():
        if not (folder / "lock").exists():
            continue  # being made, or being removed
        with contextlib.suppress(OSError):
            lock = _take(folder / "lock")
            if lock is not None:
                _remove(folder)
                os.close(lock)


def _remove(folder: Path) -> None:
    """By `rm`, which copes with trees deeper than any path."""
    area = os.fsencode(folder / "area")
    while _libc.umount2(area, MNT_DETACH) == 0:
        pass
    subprocess.run(["/bin/rm", "-rf", "--one-file-system", str(folder)], check=False, capture_output=True)  # noqa: S603
    if folder.exists():
        _make_enterable(folder)
        subprocess.run(["/bin/rm", "-rf", "--one-file-system", str(folder)], check=False, capture_output=True)  # noqa: S603


def _make_enterable(folder: Path) -> None:
    command = ["/bin/chmod", "-R", "u+rwX", str(folder)]
    subprocess.run(command, check=False, capture_output=True)  # noqa: S603


def _mount_tmpfs(folder: Path, size_bytes: int) -> bool:
    options = f"size={size_bytes},nr_inodes={LARGEST_TREE_ENTRIES},mode=755".encode()
    flags = MS_NOSUID | MS_NODEV
    return _libc.mount(b"tmpfs", os.fsencode(folder), b"tmpfs", ctypes.c_ulong(flags), options) == 0


def _first(error: OSError | shutil.Error) -> str:
    reasons = error.args[0] if isinstance(error, shutil.Error) else error
    return str(reasons[0][2] if isinstance(reasons, list) and reasons else reasons)
