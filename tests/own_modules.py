"""Modules of an experiment's folder. They go by short names, such as `run`, that those of other folders have too."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType


@contextmanager
def modules_of(folder: Path) -> Generator[Callable[[str], ModuleType]]:
    """Imports by name inside; afterwards everything is as it was."""
    own = {path.stem for path in folder.iterdir() if path.suffix == ".py" or path.is_dir()}

    def taken_out() -> dict[str, ModuleType]:
        return {name: sys.modules.pop(name) for name in list(sys.modules) if name.partition(".")[0] in own}

    before = taken_out()
    sys.path.insert(0, str(folder))
    try:
        yield importlib.import_module
    finally:
        sys.path.remove(str(folder))
        taken_out()
        sys.modules.update(before)
