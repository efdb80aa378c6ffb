"""Which open ledger made a reservation, and whether it is still there: it holds a lock on a file beside the database.

The kernel drops the lock when the process ends, however it ends, and every container on the machine sees that. Process
ids would not do, because containers have their own. A heartbeat would keep the calls of a killed process open until it
is missed, and would reach no further: SQLite's log needs one kernel as well.
"""

from __future__ import annotations

import fcntl
import os
import secrets
from pathlib import Path


class Lease:
    """Taken before the first reservation, so that a ledger that is only read leaves no file."""

    def __init__(self, ledger: Path) -> None:
        self.owner = secrets.token_hex(8)
        self._path = _path(ledger, self.owner)
        self._lock: int | None = None

    def take(self) -> None:
        if self._lock is None:
            self._lock = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def end(self) -> None:
        """What the ledger left reserved, because the disk was full, nobody will finish."""
        if self._lock is not None:
            self._path.unlink(missing_ok=True)
            os.close(self._lock)
            self._lock = None


def is_alive(ledger: Path, owner: str) -> bool:
    """Asking changes no file."""
    try:
        lock = os.open(_path(ledger, owner), os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        # Shared, so that two who ask at once do not take each other for the owner.
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def clear(ledger: Path, owner: str) -> None:
    """Remove what an owner that died left behind."""
    _path(ledger, owner).unlink(missing_ok=True)


def _path(ledger: Path, owner: str) -> Path:
    return ledger.with_name(f"{ledger.name}.{owner.replace('/', '_')}.lease")
