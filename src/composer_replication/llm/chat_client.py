"""One paid chat question. Each call is in the run's ledger: reserved, sent, settled, never paid twice."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from composer_replication.errors import UsageError
from composer_replication.records import JsonObject

from .addresses import require_loopback
from .chat import ChatFailure, ChatReply, cost_micros, read_reply
from .http_answers import judge
from .ledger import Ending, Ledger
from .outgoing import encoded, secret_in
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
def open_chat(
    setting: str, base_url: str | None, model: str | None, run_path: Path, timeout_s: float
) -> Generator[LedgerChatClient | None]:
    """A client that pays from the ledger of a run; None where no server is set. `setting` begins the names in the
    config of the server and of the model, which are set together."""
    if base_url is None:
        yield None
        return
    if not model:
        raise UsageError(f"{setting}_base_url is set but {setting}_model is not", "set both in the config file")
    ledger = Ledger(run_path / "ledger.sqlite")
    try:
        yield LedgerChatClient(base_url, ledger, timeout_s)
    finally:
        ledger.close()
