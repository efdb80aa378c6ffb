"""A fourth channel, as somebody else would write it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from composer_replication.objective import ChannelSettings


class StayClose:
    """Pulls the embeddings towards zero."""

    class Settings(ChannelSettings):
        strength: float = 1.0

    name = "close"

    def __init__(self, settings: Settings) -> None:
        self.weight, self.schedule, self._strength = settings.weight, settings.schedule, settings.strength

    def loss(self, model: Any, batch: Mapping[str, Tensor]) -> Tensor:
        return self._strength * model.get_input_embeddings().weight.square().mean()
