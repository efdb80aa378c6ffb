"""How busy the machine is while a queue works: whether cores or the GPU limit a slice."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import fmean

import psutil

EVERY_S = 10.0
ASK_GPU = ("nvidia-smi", "--query-gpu=utilization.gpu,memory.used", "--format=csv,noheader,nounits")


class Load:
    """A line of JSON at most every ten seconds, each about the time since the one before."""

    def __init__(self, file: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._file, self._clock, self._due = file, clock, clock() + EVERY_S
        self._lines: list[Mapping[str, float]] = []
        file.unlink(missing_ok=True)  # of an earlier slice
        psutil.cpu_percent()

    def look(self) -> None:
        if (now := self._clock()) < self._due:
            return
        self._due = now + EVERY_S
        line = {"at": round(time.time(), 1), "busy_cores": psutil.cpu_percent() / 100 * _cores(), **_gpu()}
        self._lines.append(line)
        with self._file.open("a", encoding="utf-8") as out:
            out.write(json.dumps(line) + "\n")

    def told(self) -> str:
        """Means over the lines; empty where there was no time for one."""
        if not self._lines:
            return ""
        busy = f"{fmean(line['busy_cores'] for line in self._lines):.1f} of {_cores()} cores busy"
        on_gpu = [line for line in self._lines if "gpu_percent" in line]
        share = f", GPU {fmean(line['gpu_percent'] for line in on_gpu):.0f} %" if on_gpu else ""
        most = f", at most {max(line['gpu_mib'] for line in on_gpu):,.0f} MiB of it" if on_gpu else ""
        return busy + share + most


def _cores() -> int:
    return psutil.cpu_count() or 1


def _gpu() -> dict[str, float]:
    """Of the first one; nothing without one."""
    try:
        said = subprocess.run(ASK_GPU, capture_output=True, text=True, check=True, timeout=EVERY_S).stdout
        percent, mib = said.splitlines()[0].split(",")
        return {"gpu_percent": float(percent), "gpu_mib": float(mib)}
    except (OSError, subprocess.SubprocessError, ValueError, IndexError):
        return {}
