"""Who writes the turns of TRL's rollouts: the policy in its own process, vLLM inside it, or a server."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Unpack

from composer_replication.config import Config

from ...models.loading import Policy
from ...rollouts.sampling import SampledTurn, SamplingOptions
from ...rollouts.server_sampling import ServerSampler
from ...rollouts.weight_folder import WeightFolder
from .rollouts import OpenSampler


class ColocatedSampler:
    """Turns from a vLLM engine inside the training process, which TRL starts and gives its weights.

    Reads and sets what TRL's `VLLMGeneration` keeps as plain attributes; a test holds TRL to it. No engine was run
    here.
    """

    def __init__(self, generation: Any, end_of_turn_id: int, batch: int, max_tokens: int | None) -> None:
        self._generation, self.batch, self.max_tokens = generation, batch, max_tokens
        self._stop = {"stop_token_ids": [end_of_turn_id]}
        self._version = 0

    def refresh(self, model: Any) -> None:
        """TRL has sent the weights before it asks for rollouts."""
        self._version += 1

    def sample(
        self, slots: Sequence[int], contexts: Sequence[Sequence[int]], **options: Unpack[SamplingOptions]
    ) -> list[SampledTurn]:
        """The engine has a seed of its own: one for the whole call would write all turns of a group alike.
        It tells of no turn before all have ended."""
        generation = self._generation
        generation.max_completion_length, generation.temperature = options["max_new_tokens"], options["temperature"]
        generation.generation_kwargs = {**generation.generation_kwargs, **self._stop}
        _, ids, logprobs, _ = generation.generate(
            prompts=[list(context) for context in contexts], images=None, num_generations=1
        )
        return [
            SampledTurn(list(turn), [one[0] for one in told], self._version)
            for turn, told in zip(ids, logprobs, strict=True)
        ]


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
