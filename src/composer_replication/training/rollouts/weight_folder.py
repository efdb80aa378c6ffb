"""New weights for a sampling server through a folder that both see, and SGLang's `/update_weights_from_disk`.

A folder per version; the server has read the last one when its answer comes, so the one before is deleted then.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from composer_replication.config import SamplingConfig
from composer_replication.errors import RecomposeError

from .. import processes
from ..models.states import language_model
from ..models.whole import weights_of_main
from .wire import Wire


class WeightFolder:
    def __init__(self, settings: SamplingConfig, folder: Path) -> None:
        self._wire, self._folder = Wire(settings), folder.resolve()

    def send(self, model: Any, version: int) -> None:
        """Shards are gathered one by one, adapters merged; the main process alone keeps them, and writes them."""
        network, weights = language_model(model), weights_of_main(model)
        with processes.all_or_none():
            if processes.is_main():
                self.publish(lambda folder: network.save_pretrained(folder, state_dict=weights), version)

    def publish(self, write: Callable[[Path], None], version: int) -> None:
        folder = self._folder / str(version)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        write(folder)
        told = self._wire.ask_once(
            "/update_weights_from_disk", {"model_path": str(folder), "weight_version": str(version)}
        )
        if not told.get("success"):
            raise RecomposeError(
                f"{self._wire.url} did not take the weights of {folder}: {told.get('message', 'it does not say why')}",
                "give sampling.folder a path that the server sees too",
            )
        for old in self._folder.iterdir():
            if old != folder:
                shutil.rmtree(old)

    def close(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)
