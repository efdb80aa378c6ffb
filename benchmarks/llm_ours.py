"""Our client at the same work as its peers in `llm_worker.py`: gate, reservation and settlement on disk included."""

from __future__ import annotations

import asyncio
import resource
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from llm_worker import MAX_TOKENS, open_loop, request

from composer_replication.llm.calls import Calls, Live
from composer_replication.llm.client import Endpoint, PaidCall, attempt
from composer_replication.llm.lane import Lane
from composer_replication.llm.ledger import Ledger
from composer_replication.llm.pricing import Prices
from composer_replication.llm.transport import HttpTransport

PRICES = Prices(100_000, 400_000)
MEMORY_EVERY = 10_000


def ours(base_url: str, loop: str, calls: int, rate: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger(Path(folder) / "ledger.sqlite")
        ledger.set_cap(10**12)
        endpoint = Endpoint("m", base_url, PRICES)
        work = _closed(ledger, endpoint, calls, rate) if loop == "closed" else _open(ledger, endpoint, calls, rate)
        result = asyncio.run(work)
        ledger.close()
        return result


def _call(number: int) -> PaidCall:
    return PaidCall(f"k{number}", 1600, MAX_TOKENS, lambda: request(number))


async def _closed(ledger: Ledger, endpoint: Endpoint, calls: int, at_a_time: int) -> dict[str, Any]:
    memory: list[int] = []

    def on_change(live: Live) -> None:
        if live.done % MEMORY_EVERY == 0:
            memory.append(_resident_mb())

    async with HttpTransport(60.0) as transport:
        warm = Lane(endpoint, 1)
        warm.add([_call(-1)])
        await Calls([warm], ledger, transport, 3, lambda live: None).run()
        lane = Lane(endpoint, at_a_time)
        lane.add(_calls(calls))
        running = Calls([lane], ledger, transport, 3, on_change)
        cpu, wall = time.process_time(), time.monotonic()
        await running.run()
        assert running.live.done == calls, running.live
        return {
            "cpu_ms_per_call": round((time.process_time() - cpu) / calls * 1e3, 4),
            "calls_per_s": round(calls / (time.monotonic() - wall), 1),
            "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10,
            "resident_mb": memory,
        }


def _calls(number: int) -> Iterator[PaidCall]:
    return map(_call, range(number))


async def _open(ledger: Ledger, endpoint: Endpoint, calls: int, per_s: int) -> dict[str, Any]:
    async with HttpTransport(60.0) as transport:

        async def ask(number: int) -> None:
            assert (await attempt(_call(number), endpoint, ledger, transport)).action == "done"

        return await open_loop(ask, calls, per_s)


def _resident_mb() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() >> 20
