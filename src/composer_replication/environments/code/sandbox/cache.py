"""What is made once per host: folders that sandboxes show, and what is known of them.

Writes below $XDG_CACHE_HOME, else /var/cache for root and ~/.cache for others.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path


def cache_folder() -> Path:
    """Made where it is not yet there."""
    if chosen := os.environ.get("XDG_CACHE_HOME"):
        base = Path(chosen)
    else:
        base = Path("/var/cache") if os.getuid() == 0 else Path.home() / ".cache"
    folder = base / "composer-replication"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def made_once(target: Path, make: Callable[[Path], None]) -> Path:
    """The folder or file; made elsewhere and then renamed, so that another process sees all of it or nothing."""
    if target.exists():
        return target
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="building-") as scratch:
        building = Path(scratch, "made")
        make(building)
        _open_to_readers(building)
        try:
            building.rename(target)
        except OSError:
            if not target.exists():
                raise
    return target


def _open_to_readers(building: Path) -> None:
    """The command's user may be another than ours."""
    for folder, _, files in os.walk(building):
        for path in (folder, *(os.path.join(folder, file) for file in files)):
            if not os.path.islink(path):
                mode = os.stat(path).st_mode
                os.chmod(path, (mode | 0o444 | (0o111 if mode & 0o100 else 0)) & ~0o022)
