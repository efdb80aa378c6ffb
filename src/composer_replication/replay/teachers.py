"""Who is asked. One vote per family, whatever the number of its members."""

from __future__ import annotations

from typing import NamedTuple

from composer_replication.records import family_of


class Teacher(NamedTuple):
    """A model behind an OpenAI-compatible server."""

    model: str
    base_url: str
    simulated: bool = False

    @property
    def family(self) -> str:
        return family_of(self.model) or self.model
