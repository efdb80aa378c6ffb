"""A process that asks the fault server and says of each answer that it is saved, as soon as it may say so."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

from composer_replication.errors import RecomposeError
from composer_replication.llm.calls import Calls
from composer_replication.llm.client import Endpoint, PaidCall
from composer_replication.llm.lane import Lane
from composer_replication.llm.ledger import Ending, Ledger
from composer_replication.llm.pricing import Prices
from composer_replication.llm.transport import HttpTransport
from composer_replication.replay.requests import build_request, request_key

PRICES = Prices(1_000_000, 2_000_000)
MAX_TOKENS = 64


class TellingLedger(Ledger):
    """Writes the attempt's number to a file once its result is on disk."""

    told: int | None = None

    async def afinish(self, attempt: int, ending: Ending) -> None:
        await super().afinish(attempt, ending)
        if self.told is not None and ending.state == "settled":
            os.write(self.told, b"%d\n" % attempt)


def call(number: int, model: str = "m") -> PaidCall:
    request = build_request(model, [{"role": "user", "content": f"question {number}"}], [], MAX_TOKENS)
    return PaidCall(request_key(request), 200, MAX_TOKENS, lambda: request)


def ask(
    ledger: Ledger,
    base_url: str,
    numbers: range,
    concurrency: int,
    timeout_s: float = 5.0,
    max_attempts: int = 8,
    prices: Prices | None = PRICES,
    models: tuple[str, ...] = ("m",),
    on_start: Callable[[], None] | None = None,
) -> Calls:
    """Ask every question that is not settled yet."""
    settled = ledger.settled_keys()
    lanes: list[Lane] = []
    for model in models:
        ledger.remember_teacher(model, base_url, None)
        lane = Lane(Endpoint(model, base_url, prices), concurrency, learns_price=prices is None)
        lane.add(one for number in numbers if (one := call(number, model)).key not in settled)
        lanes.append(lane)

    async def run() -> Calls:
        async with HttpTransport(timeout_s) as transport:
            calls = Calls(lanes, ledger, transport, max_attempts, lambda live: None)
            if on_start:
                on_start()
            await calls.run()
            return calls

    return asyncio.run(run())


def peak_bytes() -> int:
    """Of this program alone: `ru_maxrss` also counts what the process that started it took."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("ledger", type=Path)
    parser.add_argument("base_url")
    parser.add_argument("--questions", type=int, default=100)
    parser.add_argument("--concurrency", type=int, default=32)
    parser.add_argument("--timeout", type=float, default=5.0)
    parser.add_argument("--told", type=Path)
    parser.add_argument("--cap", type=int, default=10**12)
    given = parser.parse_args()
    ledger = TellingLedger(given.ledger)
    if given.told:
        ledger.told = os.open(given.told, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    ledger.set_cap(given.cap)
    before = resident_bytes()
    ready = partial(print, "ready", flush=True)
    calls = ask(ledger, given.base_url, range(given.questions), given.concurrency, given.timeout, on_start=ready)
    ledger.close()
    if calls.error and not isinstance(calls.error, RecomposeError):
        raise calls.error
    grown = peak_bytes() - before
    error = type(calls.error).__name__ if calls.error else None
    print(json.dumps({"done": calls.live.done, "failed": len(calls.failures), "error": error, "grown_bytes": grown}))


if __name__ == "__main__":
    main()
