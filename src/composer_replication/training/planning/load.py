"""What else this machine works on: fitted costs are those of an idle core."""

from __future__ import annotations

import os
from typing import TypedDict

BUSY = 1.5
"""Times as long, from which on a plan speaks of it: a training with threads on several cores makes up for less."""


class Load(TypedDict):
    processes: float
    """That ran or waited to run, on average over the last minute."""
    cores: int
    times_as_long: float
    """As foreseen for a core of its own, where all processes and the training share the cores evenly."""


def load_here() -> Load | None:
    """None where a training gets the core that is foreseen, or the machine keeps no record."""
    try:
        processes = os.getloadavg()[0]
    except OSError:
        return None
    cores = os.cpu_count() or 1
    times_as_long = (processes + 1) / cores
    if times_as_long < BUSY:
        return None
    return Load(processes=round(processes, 1), cores=cores, times_as_long=round(times_as_long, 1))
