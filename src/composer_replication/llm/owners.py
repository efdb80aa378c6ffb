"""Which open ledger made a reservation, and whether it is still there. A pid alone is no name: pids are used again."""

from __future__ import annotations

import os
import subprocess
from itertools import count
from pathlib import Path

_numbers = count()
_open_here: set[str] = set()


def new_owner() -> str:
    owner = f"{os.getpid()}:{next(_numbers)}:{_started(os.getpid())}"
    _open_here.add(owner)
    return owner


def retire(owner: str) -> None:
    """The ledger was closed: what it left reserved, because the disk was full, nobody will finish."""
    _open_here.discard(owner)


def is_alive(owner: str) -> bool:
    pid, _, rest = owner.partition(":")
    if int(pid) == os.getpid():
        return owner in _open_here
    return rest.partition(":")[2] == _started(int(pid)) != ""


def _started(pid: int) -> str:
    """When a process began, in the system's own words; empty when there is none. A zombie has ended."""
    stat = Path(f"/proc/{pid}/stat")
    if Path("/proc/self/stat").exists():
        try:
            # The name in the second field may hold blanks and brackets.
            fields = stat.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except OSError:
            return ""
        return "" if fields[0] in "ZX" else fields[19]
    command = ["/bin/ps", "-o", "lstart=", "-p", str(pid)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()  # noqa: S603
