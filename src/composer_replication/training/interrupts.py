"""Work that an interrupt must not cut in two."""

from __future__ import annotations

import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def held_back() -> Generator[None]:
    """SIGINT or SIGTERM that comes meanwhile is answered afterwards. Outside the main thread none would arrive."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received: list[int] = []
    before = {
        number: signal.signal(number, lambda came, _: received.append(came))
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if received:
        signal.raise_signal(received[0])
