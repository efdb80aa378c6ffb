"""Turns from a server, token ids in and token ids out: `/v1/completions` of vLLM or SGLang.

Both take a prompt of token ids and give back the ids that were sampled with their log-probabilities; nothing is
tokenised again. SGLang also says which weights wrote an answer. vLLM does not: there it is the count of refreshes when
the request was sent, the oldest weights that can have taken part.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from composer_replication.config import SamplingConfig
from composer_replication.errors import RecomposeError

from .sampling import SampledTurn, served_turn
from .weight_folder import WeightFolder
from .wire import Wire

COMPLETIONS = "/v1/completions"


class ServerSampler:
    """Without a `sender` somebody else gives the server its weights, before `refresh` is called."""

    def __init__(
        self,
        settings: SamplingConfig,
        end_of_turn_id: int,
        max_tokens: int | None = None,
        sender: WeightFolder | None = None,
    ) -> None:
        self._wire, self._settings, self._sender = Wire(settings), settings, sender
        self._end_of_turn_id = end_of_turn_id
        self._session: aiohttp.ClientSession | None = None
        self._places: asyncio.Semaphore | None = None
        served = self._wire.ask_once("/v1/models")["data"][0]
        self._model = settings.model or served["id"]
        limits = [limit for limit in (max_tokens, served.get("max_model_len")) if limit is not None]
        self.max_tokens, self.version = min(limits, default=None), 0

    def refresh(self, model: Any) -> None:
        self.version += 1
        if self._sender is not None:
            self._sender.send(model, self.version)

    @asynccontextmanager
    async def connected(self) -> AsyncGenerator[None]:
        self._places = asyncio.Semaphore(self._settings.in_flight)
        async with self._wire.session() as self._session:
            yield
        self._session = None

    async def write(self, context: Sequence[int], *, max_new_tokens: int, temperature: float, seed: int) -> SampledTurn:
        assert self._session is not None
        assert self._places is not None
        body = {
            "model": self._model,
            "prompt": list(context),
            "max_tokens": max_new_tokens,
            "temperature": temperature,
            "top_p": 1.0,
            "top_k": -1,
            # A server fills in what is not said from the model's own generation config.
            "min_p": 0.0,
            "repetition_penalty": 1.0,
            "seed": seed,
            "stop_token_ids": [self._end_of_turn_id],
            "logprobs": 0,
            "return_token_ids": True,
            "skip_special_tokens": False,
        }
        async with self._places:
            version = self.version
            return self._read(await self._wire.ask(self._session, COMPLETIONS, body), version)

    def _read(self, answer: Any, version: int) -> SampledTurn:
        try:
            choice = answer["choices"][0]
            ids, logprobs = choice["token_ids"], choice["logprobs"]["token_logprobs"]
        except (KeyError, IndexError, TypeError) as error:
            raise RecomposeError(
                f"an answer of {self._wire.url} has no token ids or log-probabilities",
                "use a server that knows return_token_ids, as today's vLLM and SGLang do",
            ) from error
        told = str((answer.get("metadata") or {}).get("weight_version"))
        return served_turn(self._wire.url, ids, logprobs, int(told) if told.isdecimal() else version)
