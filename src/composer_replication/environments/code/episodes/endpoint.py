"""An OpenAI-compatible server as the model of an attempt. The project's rules for paid calls hold.

Every call is in the run's ledger before it is sent: an answer that was paid for is read from there when the attempt is
made again, so a run that was stopped goes on where it was. A request that holds a secret is not sent and ends the
attempt. Loopback needs no price; any other server needs one, https and a cap.
"""

from __future__ import annotations

import asyncio
import json
import random
import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, cast

from composer_replication.errors import BudgetError, RecomposeError, UsageError
from composer_replication.llm.addresses import is_loopback, require_allowed
from composer_replication.llm.client import Attempted, Endpoint, PaidCall, attempt
from composer_replication.llm.ledger import Ledger
from composer_replication.llm.outgoing import routed
from composer_replication.llm.pricing import FREE, Prices, usage_of
from composer_replication.llm.transport import HttpTransport
from composer_replication.records import JsonObject, Message, canonical_json, digest_of

from ...untrusted import encodable
from .loop import NoReply
from .transcript import wire
from .turns import Reply, WireCall

REQUEST_SCHEMA = 1
BACKOFF_S = 0.5
MAX_BACKOFF_S = 20.0


@dataclass(frozen=True)
class EndpointSettings:
    base_url: str
    model: str
    temperature: float = 1.0
    max_turn_tokens: int = 2048
    timeout_s: float = 120.0
    max_attempts: int = 6
    prices: Prices | None = None
    """Per million tokens; None on loopback."""

    def check(self, has_cap: bool) -> None:
        require_allowed(self.base_url)
        if is_loopback(self.base_url):
            return
        if self.prices is None:
            raise UsageError(
                f"the price of {self.model} is not known", "add --price IN,OUT in dollars per million tokens"
            )
        if not has_cap:
            raise UsageError(f"{self.model} costs money and there is no cap", "add --max-usd DOLLARS")


class EndpointModel(AbstractContextManager["EndpointModel", None]):
    """A `ChatModel` for many threads at once; the calls themselves run in one event loop."""

    def __init__(self, settings: EndpointSettings, endpoint: Endpoint, ledger: Ledger) -> None:
        settings.check(ledger.totals().cap_micros is not None)
        self.name = settings.model
        self._settings, self._endpoint, self._ledger = settings, endpoint, ledger
        ledger.remember_teacher(endpoint.name, endpoint.base_url, None)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="model-calls", daemon=True)
        self._thread.start()
        self._transport = asyncio.run_coroutine_threadsafe(self._open(), self._loop).result()

    def reply(self, messages: Sequence[Message], tools: Sequence[JsonObject], asked: str) -> Reply:
        request = self._request(messages, tools)
        key = digest_of({"schema": REQUEST_SCHEMA, "asked": asked, **request})
        if self._ledger.settled(key) is None:
            asyncio.run_coroutine_threadsafe(self._ask(request, key), self._loop).result()
        settled = self._ledger.settled(key)
        if settled is None:
            raise NoReply("no usable answer")
        return read_reply(settled.body)

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._transport.__aexit__(None, None, None), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def __exit__(self, *raised: object) -> None:
        self.close()

    async def _open(self) -> HttpTransport:
        return HttpTransport(self._settings.timeout_s)

    def _request(self, messages: Sequence[Message], tools: Sequence[JsonObject]) -> JsonObject:
        settings = self._settings
        request: JsonObject = {
            "model": settings.model,
            "messages": wire(messages),
            "tools": list(tools),
            "temperature": settings.temperature,
            "max_tokens": settings.max_turn_tokens,
        }
        return routed(request, settings.base_url)

    async def _ask(self, request: JsonObject, key: str) -> None:
        """Until it is settled. What no further try can mend raises."""
        call = PaidCall(key, len(canonical_json(request).encode()), self._settings.max_turn_tokens, lambda: request)
        prices, reason, unusable = self._settings.prices or FREE, "unknown", False
        for tried in range(self._settings.max_attempts):
            attempted = await attempt(call, self._endpoint, self._ledger, self._transport, prices)
            if attempted.action == "done":
                return
            self._raise_final(attempted)
            if attempted.action == "busy":
                self._ledger.reap()
            if attempted.verdict:
                reason, unusable = attempted.verdict.reason or reason, attempted.verdict.unusable
            asked_to_wait = attempted.verdict.retry_after_s if attempted.verdict else None
            backoff_s = min(MAX_BACKOFF_S, BACKOFF_S * 2**tried) * random.uniform(0.5, 1.0)
            await asyncio.sleep(min(MAX_BACKOFF_S, asked_to_wait or backoff_s))
        if unusable:
            raise NoReply(reason)
        raise RecomposeError(
            f"{self._endpoint.base_url} gave no answer ({reason}); finished attempts are saved",
            "check the server and run the same command again",
        )

    def _raise_final(self, attempted: Attempted) -> None:
        reason = (attempted.verdict.reason if attempted.verdict else None) or "unknown"
        if attempted.action == "over_cap":
            raise BudgetError(
                "the cap leaves no room for the next call's worst case; finished attempts are saved",
                "run the same command with a higher --max-usd",
            )
        if attempted.action == "stop_key":
            raise RecomposeError(f"the server refuses to go on ({reason})", "check the key and the credit, run again")
        if attempted.action == "retry_never":
            raise NoReply(reason)


def read_reply(body: str) -> Reply:
    """A chat completion as a turn. What cannot be read is a turn without calls, which the agent is told."""
    try:
        answer = cast("dict[str, Any]", json.loads(body))
        message = cast("dict[str, Any]", answer["choices"][0]["message"])
        calls = [
            WireCall(
                encodable(str(made["function"]["name"])),
                _wire_arguments(made["function"].get("arguments")),
                _wire_id(made.get("id")),
            )
            for made in cast("list[dict[str, Any]]", message.get("tool_calls") or [])
        ]
        thinking = message.get("reasoning_content") or message.get("reasoning") or ""
        tokens = usage_of(answer.get("usage") or {}).completion_tokens
        return Reply(_text(message.get("content")), calls, _text(thinking), tokens)
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError) as error:
        raise NoReply("unreadable answer") from error


def _wire_arguments(arguments: object) -> str:
    return arguments if isinstance(arguments, str) else canonical_json(arguments if arguments is not None else {})


def _wire_id(call_id: object) -> str | None:
    return call_id if isinstance(call_id, str) and call_id and encodable(call_id) == call_id else None


def _text(content: object) -> str:
    if content is None or isinstance(content, str):
        return encodable(content or "")
    return encodable(canonical_json(content))
