"""Which process made a reservation, and whether it still lives. A pid alone is no name: pids are used again."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path


def this_owner() -> str:
    return f"{os.getpid()}:{_started(os.getpid())}"


def is_alive(owner: str) -> bool:
    pid = int(owner.partition(":")[0])
    return owner == f"{pid}:{_started(pid)}"


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
