"""Turns from a vLLM engine inside the training process, which TRL starts and gives its weights.

Reads and sets what TRL's `VLLMGeneration` keeps as plain attributes; a test holds TRL to it. No engine was run here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from .sampling import SampledTurn


class ColocatedSampler:
    def __init__(self, generation: Any, end_of_turn_id: int, batch: int, max_tokens: int | None) -> None:
        self._generation, self.batch, self.max_tokens = generation, batch, max_tokens
        self._stop = {"stop_token_ids": [end_of_turn_id]}
        self._version = 0

    def refresh(self, model: Any) -> None:
        """TRL has sent the weights before it asks for rollouts."""
        self._version += 1

    def sample(
        self,
        slots: Sequence[int],
        contexts: Sequence[Sequence[int]],
        *,
        max_new_tokens: int,
        temperature: float,
        generator: torch.Generator | None = None,
    ) -> list[SampledTurn]:
        """The engine has a seed of its own: one for the whole call would write all turns of a group alike."""
        generation = self._generation
        generation.max_completion_length, generation.temperature = max_new_tokens, temperature
        generation.generation_kwargs = {**generation.generation_kwargs, **self._stop}
        _, ids, logprobs, _ = generation.generate(
            prompts=[list(context) for context in contexts], images=None, num_generations=1
        )
        return [
            SampledTurn(list(turn), [one[0] for one in told], self._version)
            for turn, told in zip(ids, logprobs, strict=True)
        ]
