"""Imports of the heavy libraries. An interrupt inside their native start-up would abort the process without a word."""

from __future__ import annotations

import gc
import importlib
import sys
import threading
from importlib.util import find_spec

from .interrupts import held_back

NAMES = ("torch", "transformers", "accelerate", "datasets", "trl")


def load_libraries(*modules: str) -> None:
    """Import those that are installed, and `modules` of ours, which load more of them, with interrupts held back; one
    that came meanwhile is raised afterwards.

    What they load stays to the end, so that the garbage collector is spared a look at it, now and later: each look
    took 0.2 s, and trainers ask for one at their start.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    installed = [name for name in NAMES if find_spec(name)]
    is_first = not sys.modules.keys() >= set(installed) and gc.isenabled()
    if is_first:
        gc.disable()
    try:
        with held_back():
            for name in (*installed, *modules):
                importlib.import_module(name)
    finally:
        if is_first:
            gc.freeze()
            gc.enable()
