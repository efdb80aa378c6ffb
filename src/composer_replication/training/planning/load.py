"""What else this machine works on: fitted costs are those of an idle one."""

from __future__ import annotations

import os
from typing import TypedDict

BUSY = 0.5
"""Processes per core from which on a plan speaks of them."""


class Load(TypedDict):
    processes: float
    """That ran or waited to run, on average over the last minute."""
    cores: int
    times_as_long: float
    """As on an idle machine, where the cores are shared evenly with a training that has a thread on each."""


def load_here() -> Load | None:
    """None where the machine is as good as idle, or keeps no record."""
    try:
        processes = os.getloadavg()[0]
    except OSError:
        return None
    cores = os.cpu_count() or 1
    if processes < BUSY * cores:
        return None
    return Load(processes=round(processes, 1), cores=cores, times_as_long=round(1 + processes / cores, 1))
