"""Processor seconds of this process and of all that it started, commands in sandboxes included.

A sandbox's first process outlives its launcher by a moment, and would be charged to nobody: a process that calls
`adopt_orphans` inherits it, and `cpu_s` waits for those that have ended. Linux only; elsewhere they are left out.
"""

from __future__ import annotations

import ctypes
import os
import resource
from contextlib import suppress
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans() -> None:
    """For a process of our own that starts nothing in parallel with asking for `cpu_s`."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def cpu_s(reap: bool = False) -> float:
    if reap:
        _reap()
    usages = (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def _reap() -> None:
    for children in Path("/proc/self/task").glob("*/children"):
        with suppress(OSError):
            for child in children.read_text(encoding="ascii").split():
                with suppress(ChildProcessError):
                    os.waitid(os.P_PID, int(child), os.WEXITED | os.WNOHANG)
