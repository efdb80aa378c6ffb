"""Who writes the turns of TRL's rollouts: the policy in its own process, vLLM inside it, or a server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from composer_replication.config import Config

from ...models.loading import Policy
from ...rollouts.colocated_sampling import ColocatedSampler
from ...rollouts.server_sampling import ServerSampler
from ...rollouts.weight_folder import WeightFolder
from .rollouts import OpenSampler


def sampler_opener(config: Config, policy: Policy, folder: Path) -> OpenSampler | None:
    """None where the policy samples for itself. With `nccl`, and colocated, TRL sends the weights before each call."""
    sampling, end_of_turn_id = config.sampling, policy.tokens.end_of_turn_id
    if config.hardware.vllm == "colocate":
        return lambda trainer, rows, room: ColocatedSampler(trainer.vllm_generation, end_of_turn_id, rows, room)
    if sampling.server is None:
        return None

    def open_server(trainer: Any, rows: int, room: int) -> ServerSampler:
        is_by_disk = sampling.weight_transfer == "disk"
        sender = WeightFolder(sampling, Path(sampling.folder or folder / "served")) if is_by_disk else None
        return ServerSampler(sampling, end_of_turn_id, room, sender)

    return open_server
