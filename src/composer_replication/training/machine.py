"""What this machine is, and how much of its memory a stretch of work took."""

from __future__ import annotations

import platform
import resource
import sys
from importlib.metadata import version
from typing import Any

import psutil
import torch

LIBRARIES = ("torch", "transformers", "trl", "accelerate")
MIB = 1 << 20


def describe_machine() -> dict[str, Any]:
    on_gpu = torch.cuda.is_available()
    return {
        "device": torch.cuda.get_device_name() if on_gpu else f"CPU, {torch.get_num_threads()} threads",
        "devices": torch.cuda.device_count() if on_gpu else 0,
        "memory_mib": (torch.cuda.get_device_properties(0).total_memory if on_gpu else psutil.virtual_memory().total)
        // MIB,
        "system": f"{platform.system()} {platform.machine()}, Python {platform.python_version()}",
        **{library: version(library) for library in LIBRARIES},
    }


class MemoryMeter:
    """On a GPU what the allocator gave out; on a CPU the resident set beyond what the process held at the start."""

    def __init__(self) -> None:
        self._on_gpu = torch.cuda.is_available()
        self._before_bytes = 0 if self._on_gpu else psutil.Process().memory_info().rss
        if self._on_gpu:
            torch.cuda.reset_peak_memory_stats()

    def peak_bytes(self) -> int:
        return torch.cuda.max_memory_allocated() if self._on_gpu else peak_resident_bytes() - self._before_bytes


def peak_resident_bytes() -> int:
    """Of the whole life of the process."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def free_bytes() -> int:
    """What another tensor could take: of the GPU, with what its allocator holds idle; of the machine without one."""
    if torch.cuda.is_available():
        return torch.cuda.mem_get_info()[0] + torch.cuda.memory_reserved() - torch.cuda.memory_allocated()
    return psutil.virtual_memory().available
