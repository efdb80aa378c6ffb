"""The state that TRL's checkpoints lack: averaged teacher, place in the stored pairs, caps, random generators.

One JSON and one safetensors file per process, beside TRL's own files. Weights that every process holds alike are
written by the first one alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from composer_replication.errors import UsageError
from composer_replication.runs import write_atomically

PROCESSES = "processes"


class Stateful(Protocol):
    """Tensors and JSON-safe values by name."""

    def state(self) -> dict[str, Any]: ...

    def load(self, state: dict[str, Any]) -> None: ...


def save(folder: Path, parts: Mapping[str, Stateful], rank: int, shared: frozenset[str], processes: int = 1) -> None:
    """Parts named in `shared` are the same in every process."""
    tensors: dict[str, Tensor] = {}
    values: dict[str, dict[str, Any]] = {}
    for name, part in parts.items():
        if rank and name in shared:
            continue
        values[name] = {}
        for key, value in part.state().items():
            if isinstance(value, Tensor):
                tensors[f"{name}/{key}"] = value.contiguous()
            else:
                values[name][key] = value
    write_atomically(folder / f"composer-{rank}.json", json.dumps({**values, PROCESSES: processes}))
    partial = folder / f".composer-{rank}.safetensors"
    save_file(tensors, partial)
    partial.replace(folder / f"composer-{rank}.safetensors")


def load(folder: Path, parts: Mapping[str, Stateful], rank: int, shared: frozenset[str]) -> None:
    for name, part in parts.items():
        owner = 0 if name in shared else rank
        values, tensors = _read(folder, owner)
        if name not in values:
            raise UsageError(f"the checkpoint {folder} has no {name}", "go on with the settings that it was made with")
        own = {key.partition("/")[2]: tensor for key, tensor in tensors.items() if key.startswith(f"{name}/")}
        part.load({**values[name], **own})


def _read(folder: Path, rank: int) -> tuple[dict[str, dict[str, Any]], dict[str, Tensor]]:
    path = folder / f"composer-{rank}.json"
    try:
        return json.loads(path.read_text()), load_file(path.with_suffix(".safetensors"))
    except (OSError, ValueError, SafetensorError) as error:
        raise UsageError(
            f"the checkpoint {folder} lacks {path.name}", "use as many processes as it was made with"
        ) from error


def latest(folder: Path) -> Path | None:
    """The last checkpoint that was finished: the last file of every process is there."""
    begun = [path.parent for path in folder.glob("checkpoint-*/composer-0.safetensors")]
    found = [path for path in begun if all((path / f"composer-{n}.safetensors").exists() for n in range(made_by(path)))]
    return max(found, key=lambda path: int(path.name.partition("-")[2]), default=None)


def steps_held(folder: Path) -> int:
    """By the last checkpoint that was finished."""
    return int(found.name.partition("-")[2]) if (found := latest(folder)) else 0


def made_by(folder: Path) -> int:
    """How many processes made the checkpoint."""
    try:
        return json.loads((folder / "composer-0.json").read_text()).get(PROCESSES, 1)
    except (OSError, ValueError):
        return 1
