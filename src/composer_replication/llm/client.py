"""One paid attempt: scanned, reserved, sent, judged, written down. Nothing is sent before it is reserved on disk."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Literal, NamedTuple

from composer_replication.records import JsonObject, Usage

from .addresses import require_allowed
from .cache_prices import Rates, with_cost
from .http_answers import Action, AnswerVerdict, judge
from .keys import ApiKey
from .ledger import Ending, Ledger
from .outgoing import encoded, priced, secret_in
from .pricing import FREE, Charge, Prices, charge, worst_micros
from .transport import Ambiguous, NotSent, Response, Transport
from .wire import ChatWire

NOTHING = Charge(0, True, Usage())
ENVELOPE_BYTES = 512
"""Of a request's bytes, those that are neither prompt nor tools; the room for a provider's template covers them."""


class Endpoint(NamedTuple):
    """A model behind a server, and what it costs. Prices are None where only its answers tell."""

    name: str
    base_url: str
    prices: Prices | None = None
    key: ApiKey | None = None
    wire: ChatWire = ChatWire()
    rates: Rates | None = None
    """What a token costs that was in the provider's cache, or was put there, where that is known."""
    private_network: bool = False


class PaidCall(NamedTuple):
    """One question. The request is built when it is sent, because many wait at a time. It may be longer than
    `prompt_bytes`, which is what the question has: a dialect may want more words for the same."""

    key: str
    prompt_bytes: int
    max_tokens: int
    request: Callable[[], JsonObject]


class Attempted(NamedTuple):
    """`busy`: another process is asking this. `over_cap`: there is no room for its worst case."""

    action: Action | Literal["busy", "over_cap"]
    verdict: AnswerVerdict | None = None
    charge: Charge = NOTHING


async def attempt(
    call: PaidCall, endpoint: Endpoint, ledger: Ledger, transport: Transport, prices: Prices | None = None
) -> Attempted:
    """`prices` stand in where the endpoint has none."""
    prices = endpoint.prices or prices
    request = call.request()
    require_allowed(endpoint.base_url, endpoint.private_network)
    kind = secret_in(request)
    body = encoded(priced(request, endpoint.base_url, prices))
    worst = worst_of(prices, call, body)
    reservation = await ledger.areserve(call.key, endpoint.name, worst, call.prompt_bytes)
    if reservation.status != "reserved":
        return Attempted("done" if reservation.status == "settled" else reservation.status)
    if kind:
        verdict = AnswerVerdict("retry_never", "refused", f"not sent: the request holds a secret ({kind})")
        await ledger.afinish(reservation.attempt, Ending("refused", reason=verdict.reason))
        return Attempted("retry_never", verdict)
    started = time.monotonic()
    try:
        ended, verdict = await _send(body, endpoint, prices, worst, transport)
    except asyncio.CancelledError:
        ledger.finish(reservation.attempt, Ending("in_doubt", reason="cancelled"))
        raise
    ended = ended._replace(latency_s=time.monotonic() - started)
    await ledger.afinish(reservation.attempt, ended)
    cost = Charge(ended.cost_micros if ended.state != "in_doubt" else worst, ended.exact, ended.usage)
    return Attempted(verdict.action, verdict, cost)


def worst_of(prices: Prices | None, call: PaidCall, body: bytes) -> int:
    """The most that a call can cost, by what the question has and by what is really sent."""
    return worst_micros(prices or FREE, max(call.prompt_bytes, len(body) - ENVELOPE_BYTES), call.max_tokens)


async def _send(
    body: bytes, endpoint: Endpoint, prices: Prices | None, worst: int, transport: Transport
) -> tuple[Ending, AnswerVerdict]:
    try:
        url, headers = endpoint.wire.url(endpoint.base_url), endpoint.wire.all_headers()
        response = await transport.post(url, body, endpoint.key, headers)
    except NotSent as error:
        verdict = AnswerVerdict("retry_soon", "refused", str(error))
        return Ending("refused", reason=verdict.reason), verdict
    except Ambiguous as error:
        verdict = AnswerVerdict("retry_soon", "in_doubt", str(error))
        return Ending("in_doubt", exact=False, reason=verdict.reason, generation=error.generation), verdict
    verdict = judge(response)
    if verdict.words and endpoint.key:
        verdict = verdict._replace(words=endpoint.key.hidden_in(verdict.words))
    return ending_of(response, verdict, endpoint, prices, worst, len(body)), verdict


def ending_of(
    response: Response,
    verdict: AnswerVerdict,
    endpoint: Endpoint,
    prices: Prices | None,
    worst: int,
    prompt_bytes: int = 0,
) -> Ending:
    """What the ledger is told of an answer to a request of so many bytes, where that is known."""
    state, kept = verdict.state, response.body if response.status == 200 else None
    told = NOTHING
    if verdict.answer is not None:
        told = charge(with_cost(verdict.answer, endpoint.rates, prompt_bytes), prices, worst, prompt_bytes)
        state = "in_doubt" if state == "failed" and not told.exact else state
    return Ending(
        state, told.micros, told.exact and state != "in_doubt", verdict.reason, verdict.unusable, kept,
        _generation(verdict, response.generation), told.usage, words=verdict.words or None,
    )  # fmt: skip


def _generation(verdict: AnswerVerdict, from_header: str | None) -> str | None:
    named = (verdict.answer or {}).get("id")
    found = named if isinstance(named, str) else from_header
    return found if found and len(found) <= 200 and found.isascii() and found.isprintable() else None
