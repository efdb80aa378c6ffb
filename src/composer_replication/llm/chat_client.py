"""One paid chat question. Each call is in the run's ledger: reserved, sent, settled, never paid twice."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from composer_replication.records import JsonObject

from .addresses import require_loopback
from .chat import ChatFailure, ChatReply, cost_micros, read_reply
from .client import encoded
from .gate import secret_in
from .ledger import Ending, Ledger
from .policy import judge
from .transport import Ambiguous, HttpTransport, NotSent, Response


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
        return read_reply(settled.body if settled else self._ask(request, key, model), model)

    def _ask(self, request: JsonObject, key: str, model: str) -> str:
        """Any answer is kept, because it was paid for; whether it can be used is for the caller to say."""
        reservation = self._ledger.reserve(key, model)
        if reservation.status != "reserved":
            raise ChatFailure("asked by another process")
        ending = self._send(request)
        self._ledger.finish(reservation.attempt, ending)
        if ending.body is None:
            raise ChatFailure(ending.reason or "unknown")
        return ending.body.decode("utf-8", "replace")

    def _send(self, request: JsonObject) -> Ending:
        if kind := secret_in(request):
            return Ending("refused", reason=f"not sent: the request holds a secret ({kind})")
        started = time.monotonic()
        try:
            response = asyncio.run(self._post(encoded(request)))
        except NotSent as error:
            return Ending("refused", reason=str(error))
        except Ambiguous as error:
            return Ending("in_doubt", reason=str(error))
        if response.status != 200:
            verdict = judge(response)
            return Ending(verdict.state, reason=verdict.reason)
        cost = cost_micros(response.body.decode("utf-8", "replace"))
        return Ending("settled", cost, body=response.body, latency_s=time.monotonic() - started)

    async def _post(self, body: bytes) -> Response:
        async with HttpTransport(self._timeout_s) as transport:
            return await transport.post(f"{self._base_url}/chat/completions", body, None)


@contextmanager
def open_chat(base_url: str, run_path: Path, timeout_s: float) -> Generator[LedgerChatClient]:
    """A client that pays from the ledger of a run."""
    ledger = Ledger(run_path / "ledger.sqlite")
    try:
        yield LedgerChatClient(base_url, ledger, timeout_s)
    finally:
        ledger.close()
