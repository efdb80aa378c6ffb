"""TRL's `weight_transfer` through a folder, for servers that read weights from one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from safetensors.torch import save_file
from torch import Tensor

from ...rollouts.weight_folder import WeightFolder


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
