"""Calls in doubt, looked up at their provider: by the generation's id where one was seen, else, if told so, by what the
key has spent since the run began. The second holds only for a key that nobody else used in that time.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable
from typing import Any, NamedTuple, cast
from urllib.parse import quote

import orjson

from .addresses import require_allowed
from .keys import ApiKey, key_from_environment
from .ledger import Ledger
from .pricing import dollars_micros, told_micros
from .transport import Ambiguous, HttpTransport, NotSent, Transport

TIMEOUT_S = 30.0
AT_A_TIME = 16


class _Server(NamedTuple):
    base_url: str
    key: ApiKey | None


def reconcile(ledger: Ledger, by_key_usage: bool = False) -> int:
    """How many doubts were settled. One that the provider does not know stays at its worst case."""
    return asyncio.run(_reconcile(ledger, by_key_usage))


async def note_usage(ledger: Ledger, transport: Transport, base_url: str, key: ApiKey | None) -> None:
    """Keep what the key had spent before this run's first call, where the provider tells."""
    if ledger.rows("SELECT 1 FROM teachers WHERE base_url = ? AND usage_micros IS NOT NULL", base_url):
        return
    spent = await _get_micros(transport, f"{base_url}/key", key, _key_micros)
    if spent is not None:
        ledger.note_usage(base_url, spent)


async def _reconcile(ledger: Ledger, by_key_usage: bool) -> int:
    servers = {
        name: _Server(base_url.rstrip("/"), key_from_environment(variable))
        for name, base_url, variable in ledger.rows("SELECT name, base_url, key_variable FROM teachers")
    }
    for server in servers.values():
        require_allowed(server.base_url)
    async with HttpTransport(TIMEOUT_S) as transport:
        settled = await _by_generation(ledger, transport, servers)
        if by_key_usage:
            settled += await _by_key_usage(ledger, transport, servers)
    return settled


async def _by_generation(ledger: Ledger, transport: Transport, servers: dict[str, _Server]) -> int:
    # An id that two attempts share names neither of them.
    query = (
        "SELECT id, teacher, generation FROM attempts WHERE NOT exact AND state != 'reserved' AND generation IN "
        "(SELECT generation FROM attempts WHERE generation IS NOT NULL GROUP BY generation HAVING COUNT(*) = 1)"
    )
    slots = asyncio.Semaphore(AT_A_TIME)

    async def look_up(attempt: int, server: _Server, generation: str) -> int:
        async with slots:
            url = f"{server.base_url}/generation?id={quote(generation, safe='')}"
            micros = await _get_micros(transport, url, server.key, _generation_micros)
        if micros is None:
            return 0
        ledger.reconcile(attempt, micros)
        return 1

    rows = [row for row in ledger.rows(query) if row[1] in servers]
    return sum(await asyncio.gather(*(look_up(id_, servers[name], generation) for id_, name, generation in rows)))


async def _by_key_usage(ledger: Ledger, transport: Transport, servers: dict[str, _Server]) -> int:
    """What is left of the key's spending after all known costs is what the doubts of that server did cost together."""
    names: dict[_Server, list[str]] = defaultdict(list)
    for name, server in servers.items():
        names[server].append(name)
    settled = 0
    for server, own in names.items():
        before = ledger.rows("SELECT MIN(usage_micros) FROM teachers WHERE base_url = ?", server.base_url)[0][0]
        now = await _get_micros(transport, f"{server.base_url}/key", server.key, _key_micros)
        if before is None or now is None:
            continue
        marks = ",".join("?" * len(own))
        known = f"SELECT COALESCE(SUM(cost_micros), 0) FROM attempts WHERE exact AND teacher IN ({marks})"  # noqa: S608
        doubts = (
            f"SELECT id, cost_micros FROM attempts WHERE NOT exact AND state != 'reserved' AND teacher IN ({marks})"  # noqa: S608
        )
        left = now - before - ledger.rows(known, *own)[0][0]
        open_doubts = ledger.rows(doubts, *own)
        # More than the worst case, or less than nothing: somebody else used the key, or its figure is late.
        if not 0 <= left <= sum(worst for _, worst in open_doubts):
            continue
        for attempt, worst in open_doubts:
            ledger.reconcile(attempt, min(worst, left))
            left -= min(worst, left)
            settled += 1
    return settled


def _generation_micros(data: dict[str, Any]) -> int | None:
    told = {"cost": data.get("total_cost"), "is_byok": data.get("is_byok"), "cost_details": data}
    return told_micros(told)


def _key_micros(data: dict[str, Any]) -> int | None:
    """With what went through keys of one's own, which OpenRouter keeps apart."""
    spent = [dollars_micros(data.get(name)) for name in ("usage", "byok_usage") if data.get(name) is not None]
    return None if not spent or None in spent else sum(micros or 0 for micros in spent)


async def _get_micros(
    transport: Transport, url: str, key: ApiKey | None, read: Callable[[dict[str, Any]], int | None]
) -> int | None:
    """A dollar figure in the `data` of an answer, or None."""
    try:
        response = await transport.get(url, key)
        data: Any = orjson.loads(response.body)["data"] if response.status == 200 else None
        return read(cast("dict[str, Any]", data)) if isinstance(data, dict) else None
    except (NotSent, Ambiguous, ValueError, KeyError, TypeError):
        return None
