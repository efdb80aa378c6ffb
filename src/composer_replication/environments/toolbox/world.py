"""The state a toolbox episode acts on: a few text files and a few integer keys."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class World:
    """Mutable state; two worlds are equal when their files and keys are."""

    files: dict[str, str] = field(default_factory=dict[str, str])
    keys: dict[str, int] = field(default_factory=dict[str, int])

    def copy(self) -> World:
        return World(dict(self.files), dict(self.keys))

    def read(self, path: str) -> str:
        if path not in self.files:
            raise FileNotFoundError(f"no file {path}")
        return self.files[path]

    def get(self, key: str) -> int:
        if key not in self.keys:
            raise KeyError(f"no key {key}")
        return self.keys[key]

    def create(self, path: str, text: str) -> None:
        if path in self.files:
            raise FileExistsError(f"{path} exists")
        self.files[path] = text

    def remove(self, path: str) -> str:
        text = self.read(path)
        del self.files[path]
        return text
