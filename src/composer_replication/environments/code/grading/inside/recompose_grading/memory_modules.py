"""Runs inside the grading sandbox: trusted test modules whose text lies on no path.

The file that stands in the tree is the one that the agent knows, or empty; what is imported from there comes from
memory, and its text is forgotten once it is compiled.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import spec_from_file_location
from pathlib import PurePath
from types import ModuleType
from typing import Any


class MemoryModules:
    """An import hook."""

    def __init__(self, texts: Mapping[str, str], names: Mapping[str, Any]) -> None:
        """`texts` by absolute path; `names` are put into each module."""
        self._texts, self._names = dict(texts), dict(names)
        paths = [PurePath(path) for path in texts]
        self._stems = {path.parent.name if path.stem == "__init__" else path.stem for path in paths}

    def go_first(self) -> None:
        """Before the hook of pytest, which reads files."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        sys.meta_path.insert(0, self)

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: object = None) -> ModuleSpec | None:
        if name.rpartition(".")[2] not in self._stems:
            return None
        found = PathFinder.find_spec(name, path)
        if found is None or found.origin not in self._texts:
            return None
        inside = found.submodule_search_locations
        return spec_from_file_location(name, found.origin, loader=self, submodule_search_locations=inside)  # pyright: ignore[reportArgumentType]

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        origin = str(module.__file__)
        code = compile(self._texts.pop(origin), origin, "exec", dont_inherit=True)
        vars(module).update(self._names)
        exec(code, vars(module))  # noqa: S102
