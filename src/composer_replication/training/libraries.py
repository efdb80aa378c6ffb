"""Imports of the heavy libraries. An interrupt inside their native start-up would abort the process without a word."""

from __future__ import annotations

import importlib
import signal
import threading
from importlib.util import find_spec

NAMES = ("torch", "transformers", "accelerate", "datasets", "trl")


def load_libraries() -> None:
    """Import those that are installed with interrupts held back; one that came meanwhile is raised afterwards."""
    if threading.current_thread() is not threading.main_thread():
        return
    received: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: received.append(number))
    try:
        for name in NAMES:
            if find_spec(name):
                importlib.import_module(name)
    finally:
        signal.signal(signal.SIGINT, before)
    if received:
        raise KeyboardInterrupt
