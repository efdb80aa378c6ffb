"""Imports of the heavy libraries. An interrupt inside their native start-up would abort the process without a word."""

from __future__ import annotations

import gc
import importlib
import signal
import sys
import threading
from importlib.util import find_spec

NAMES = ("torch", "transformers", "accelerate", "datasets", "trl")


def load_libraries() -> None:
    """Import those that are installed with interrupts held back; one that came meanwhile is raised afterwards.

    What they load stays to the end, so that the garbage collector is spared a look at it, now and later: each look
    took 0.2 s, and trainers ask for one at their start.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    received: list[int] = []
    installed = [name for name in NAMES if find_spec(name)]
    is_first = not sys.modules.keys() >= set(installed) and gc.isenabled()
    if is_first:
        gc.disable()
    before = signal.signal(signal.SIGINT, lambda number, _: received.append(number))
    try:
        for name in installed:
            importlib.import_module(name)
    finally:
        signal.signal(signal.SIGINT, before)
        if is_first:
            gc.freeze()
            gc.enable()
    if received:
        raise KeyboardInterrupt
