"""New weights for a sampling server through a folder that both see, and SGLang's `/update_weights_from_disk`.

A folder per version; the server has read the last one when its answer comes, so the one before is deleted then. What
else lies in the folder is left alone.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from safetensors.torch import save_file
from torch import Tensor

from composer_replication.config import SamplingConfig
from composer_replication.errors import RecomposeError

from .. import processes
from ..models.states import language_model
from ..models.whole import weights_of_main
from .wire import Wire


class WeightFolder:
    def __init__(self, settings: SamplingConfig, folder: Path) -> None:
        self._wire, self._folder = Wire(settings), folder.resolve()
        self._written: list[Path] = []
        self._name = f"recompose-{uuid4().hex[:8]}"
        """Of this run's versions: several may share a folder."""

    def send(self, model: Any, version: int) -> None:
        """Shards are gathered one by one, adapters merged; the main process alone keeps them, and writes them."""
        network, weights = language_model(model), weights_of_main(model)
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


class FolderTransfer:
    """The server goes on with its requests and takes the weights when it has read them; nothing has to be paused."""

    def __init__(self, folder: WeightFolder, model_config: Any) -> None:
        self._folder, self._model_config, self._version = folder, model_config, 0

    def init_weight_transfer(self) -> None:
        pass

    def pause(self) -> None:
        pass

    def send_weights(self, iterator: Iterator[tuple[str, Tensor]]) -> None:
        weights = {name: tensor.detach().cpu().contiguous() for name, tensor in iterator}
        self._version += 1

        def write(folder: Path) -> None:
            self._model_config.save_pretrained(folder)
            save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})

        self._folder.publish(write, self._version)

    def resume(self) -> None:
        pass

    def destroy(self) -> None:
        self._folder.close()
