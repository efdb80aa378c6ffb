"""New weights for a sampling server through a folder that both see, and SGLang's `/update_weights_from_disk`.

A folder per version; the server has read the last one when its answer comes, so the one before is deleted then. What
else lies in the folder is left alone.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from composer_replication.config import SamplingConfig
from composer_replication.errors import RecomposeError

from .. import processes
from ..models.states import language_model
from ..models.whole import whole_tensors
from .wire import Wire


class WeightFolder:
    def __init__(self, settings: SamplingConfig, folder: Path) -> None:
        self._wire, self._folder = Wire(settings), folder.resolve()
        self._written: list[Path] = []
        self._name = f"recompose-{uuid4().hex[:8]}"
        """Of this run's versions: several may share a folder."""

    def send(self, model: Any, version: int) -> None:
        """Shards are gathered in every process, adapters merged; the main one writes them."""
        network = language_model(model)
        weights = {name: tensor.detach().to(network.dtype) for name, tensor in whole_tensors(model)}
        with processes.all_or_none():
            if processes.is_main():
                self.publish(lambda folder: network.save_pretrained(folder, state_dict=weights), version)

    def publish(self, write: Callable[[Path], None], version: int) -> None:
        folder = self._folder / f"{self._name}-{version}"
        folder.mkdir(parents=True)
        self._written.append(folder)
        write(folder)
        told = self._wire.ask_once(
            "/update_weights_from_disk", {"model_path": str(folder), "weight_version": str(version)}
        )
        if not told.get("success"):
            raise RecomposeError(
                f"{self._wire.url} did not take the weights of {folder}: {told.get('message', 'it does not say why')}",
                "give sampling.folder a path that the server sees too",
            )
        self._delete(self._written[:-1])

    def close(self) -> None:
        self._delete(list(self._written))
        with suppress(OSError):  # others have something there, or it was never made
            self._folder.rmdir()

    def _delete(self, folders: list[Path]) -> None:
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)
            self._written.remove(folder)
