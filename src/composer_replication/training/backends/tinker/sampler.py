"""Turns of rollouts from a Tinker server: ids in, ids and log-probabilities out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

from ...rollouts.sampling import SampledTurn, SamplingOptions, served_turn
from ...rollouts.worker import seeds_of
from .server import TinkerServer


class TinkerSampler:
    """All turns of a batch are asked for at once; what is sampled depends on their seeds and the adapters alone."""

    def __init__(self, server: TinkerServer, end_of_turn_id: int, batch: int, max_tokens: int) -> None:
        self._server, self._end_of_turn_id = server, end_of_turn_id
        self.batch, self.max_tokens = batch, max_tokens
        self._client: Any = None
        self._version = 0

    def refresh(self, model: Any) -> None:
        """The adapters of the server, whatever is here."""
        self._client = self._server.sampler()
        self._version += 1

    def sample(
        self, slots: Sequence[int], contexts: Sequence[Sequence[int]], **options: Unpack[SamplingOptions]
    ) -> list[SampledTurn]:
        asked = (options["max_new_tokens"], options["temperature"], self._end_of_turn_id)
        futures = [
            self._client.sample(**self._server.sampling(context, seed, *asked))
            for context, seed in zip(contexts, seeds_of(len(contexts), options.get("generator")), strict=True)
        ]
        written = [answer.sequences[0] for answer in self._server.wait(futures)]
        return [served_turn(self._server.url, one.tokens, one.logprobs, self._version) for one in written]
