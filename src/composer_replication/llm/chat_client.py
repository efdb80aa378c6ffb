"""One paid chat question. Each call is in the run's ledger: reserved, sent, settled, never paid twice."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from composer_replication.records import JsonObject

from .chat import ChatFailure, ChatReply, cost_micros, read_reply
from .client import Attempt, complete, open_client, require_loopback
from .ledger import Ledger, Settled


class LedgerChatClient:
    """A `ChatClient`. The ledger's key is the question's: a fresh fence does not make a fresh bill."""

    def __init__(self, base_url: str, ledger: Ledger, timeout_s: float) -> None:
        require_loopback(base_url)
        self._base_url = base_url
        self._ledger = ledger
        self._timeout_s = timeout_s

    def __call__(self, request: JsonObject, key: str) -> ChatReply:
        model = str(request["model"])
        settled = self._ledger.settled(key)
        if settled is None:
            settled = self._send(request, key, model)
        return read_reply(settled.body, model)

    def _send(self, request: JsonObject, key: str, model: str) -> Settled:
        self._ledger.reserve(key, model)
        attempt = asyncio.run(self._attempt(request))
        if attempt.body is None:
            reason = attempt.failure or "unknown"
            self._ledger.fail(key, reason)
            raise ChatFailure(reason)
        settled = Settled(attempt.body, cost_micros(attempt.body), attempt.latency_s)
        self._ledger.settle(key, settled)
        return settled

    async def _attempt(self, request: JsonObject) -> Attempt:
        async with open_client(1, self._timeout_s) as client:
            return await complete(client, self._base_url, request)


@contextmanager
def open_chat(base_url: str, run_path: Path, timeout_s: float) -> Generator[LedgerChatClient]:
    """A client that pays from the ledger of a run."""
    ledger = Ledger(run_path / "ledger.sqlite")
    try:
        yield LedgerChatClient(base_url, ledger, timeout_s)
    finally:
        ledger.close()
