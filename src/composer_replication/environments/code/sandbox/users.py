"""Who commands run as. Root hands them to a user that exists nowhere else; others run them as themselves.

Root without capabilities is still root to the kernel's own files: it owns /proc/sys and can write the host's core
pattern there, namespaces or not. So no command of ours has that number.
"""

from __future__ import annotations

import os
import resource
import secrets
import shutil
import stat
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from .interface import SandboxUnavailable

FIRST_USER = 0x70000000
OPTIONS = {
    getattr(resource, f"RLIMIT_{name.upper()}"): name
    for name in ("core", "cpu", "data", "fsize", "memlock", "msgqueue", "nofile", "nproc", "stack")
}


def user_of_a_new_sandbox() -> int | None:
    """None: the caller's own."""
    return FIRST_USER + secrets.randbelow(1 << 24) if os.getuid() == 0 else None


def as_user(user: int, limits: Mapping[int, int], argv: list[str]) -> list[str]:
    """A command that starts another as this user under these limits: two small programs of util-linux, no own fork.

    A process of another user takes no limits from us, root or not, so it must bring them along.
    """
    settings = [f"--{OPTIONS[name]}={value}:{value}" for name, value in limits.items()]
    switch = [_program("setpriv"), f"--reuid={user}", f"--regid={user}", "--clear-groups", "--"]
    return [_program("prlimit"), *settings, *switch, *argv]


@cache
def _program(name: str) -> str:
    if found := shutil.which(name):
        return found
    raise SandboxUnavailable(
        f"root needs the program {name} to hand commands to another user", "apt install util-linux"
    )


def reachable_by(user: int | None, path: Path) -> bool:
    """Whether the modes of a path and of the folders above let this user read it."""
    if user is None:
        return True
    wanted = stat.S_IROTH | (stat.S_IXOTH if path.is_dir() else 0)
    passed = all(folder.stat().st_mode & stat.S_IXOTH for folder in path.parents)
    return passed and path.stat().st_mode & wanted == wanted


def copy_for_others(source: Path, target: Path) -> Path:
    if source.is_dir():
        shutil.copytree(source, target, symlinks=True)
    else:
        shutil.copy2(source, target)
    subprocess.run(["/bin/chmod", "-R", "a+rX,go-w", str(target)], check=True, capture_output=True)  # noqa: S603
    return target
