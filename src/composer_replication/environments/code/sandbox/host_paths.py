"""For backends without a mount table: commands see the host's own paths, put where the spec's are mentioned."""

from __future__ import annotations

import re
from collections.abc import Mapping

from .interface import SandboxSpec
from .local import LocalSandbox
from .system import base_environment


class HostPathsSandbox(LocalSandbox):
    def __init__(self, spec: SandboxSpec, user: int | None = None) -> None:
        super().__init__(spec, user)
        self._places = {spec.workdir: self.workdir, **{inside: str(path) for inside, path in self.shown.items()}}

    @property
    def workdir(self) -> str:
        return str(self.workspace.work)

    def _environment(self) -> dict[str, str]:
        return base_environment(str(self.workspace.area / "home"), str(self.workspace.area / "tmp"))

    def _rewritten(self, text: str) -> str:
        return rewrite_paths(text, self._places)


def rewrite_paths(text: str, places: Mapping[str, str]) -> str:
    """Whole paths and their children only: `/work/a` but neither `/workshop` nor `/home/work`."""
    present = [re.escape(inside) for inside in sorted(places, key=len, reverse=True) if inside in text]
    if not present:
        return text
    return re.sub(rf"(?<![\w./-])({'|'.join(present)})(?![\w.-])", lambda match: places[match[1]], text)
