"""Runs inside the grading sandbox: trusted test modules whose text lies on no path.

The file that stands in the tree is the one that the agent knows, or empty; what is imported from there comes from
memory, and its text is forgotten once it is compiled.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from importlib.abc import SourceLoader
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import spec_from_file_location
from pathlib import PurePath
from types import CodeType, ModuleType
from typing import Any

COMPILED: dict[tuple[str, bytes], CodeType] = {}
"""By path and text; only where several orders over trusted code share a process."""


def compile_ahead(path: str, text: str) -> None:
    given = text.encode()
    if (path, given) not in COMPILED:
        COMPILED[path, given] = compile(given, path, "exec", dont_inherit=True)


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
        loader = TextLoader(found.origin, self._texts, self._names)
        inside = found.submodule_search_locations
        return spec_from_file_location(name, found.origin, loader=loader, submodule_search_locations=inside)


class TextLoader(SourceLoader):
    """Of one module; the text can be read once."""

    def __init__(self, path: str, texts: dict[str, str], names: Mapping[str, Any]) -> None:
        self._path, self._texts, self._names = path, texts, names

    def get_filename(self, fullname: str) -> str:
        return self._path

    def get_data(self, path: str) -> bytes:
        if path not in self._texts:
            raise OSError(path)
        return self._texts.pop(path).encode()

    def source_to_code(self, data: Any, path: Any, *, _optimize: int = -1) -> CodeType:
        return COMPILED.get((path, data)) or super().source_to_code(data, path)

    def exec_module(self, module: ModuleType) -> None:
        vars(module).update(self._names)
        super().exec_module(module)
