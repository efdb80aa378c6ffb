"""The parts of `llm_client.py` that run in processes of their own, some of them with the peers' Python.

`serve`: answers every chat completion after a while. Others: ask it, and print CPU per call and latencies as JSON.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import resource
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

BODY = json.dumps(
    {
        "id": "gen-1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "x" * 400}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 500, "completion_tokens": 100, "total_tokens": 600, "cost": 0.0001},
    }
).encode()
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
WORDS = "state of an agent session with tools "
MAX_TOKENS = 256
Ask = Callable[[int], Awaitable[object]]


class Answering(asyncio.Protocol):
    """Keeps when the first chat request came, for `GET /first`."""

    latency_s = 0.05
    first_at: float | None = None

    def connection_made(self, transport: Any) -> None:
        self.transport, self.buffer = transport, b""

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        while (end := self.buffer.find(b"\r\n\r\n")) >= 0:
            head = self.buffer[:end].lower()
            at = head.find(b"content-length:")
            length = int(head[at + 15 :].split(b"\r\n")[0]) if at >= 0 else 0
            if len(self.buffer) < end + 4 + length:
                return
            self.buffer = self.buffer[end + 4 + length :]
            if head.startswith(b"get"):
                body = json.dumps({"first_at": Answering.first_at}).encode()
                Answering.first_at = None
                self.transport.write(HEAD % len(body) + body)
            else:
                Answering.first_at = Answering.first_at or time.time()
                asyncio.get_running_loop().call_later(self.latency_s, self.answer)

    def answer(self) -> None:
        if not self.transport.is_closing():
            self.transport.write(HEAD % len(BODY) + BODY)


async def serve(latency_s: float) -> None:
    Answering.latency_s = latency_s
    server = await asyncio.get_running_loop().create_server(Answering, "127.0.0.1", 0, backlog=2048)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def request(number: int) -> dict[str, Any]:
    content = f"question {number}: {WORDS * 40}"
    return {
        "model": "m",
        "messages": [{"role": "user", "content": content}],
        "temperature": 0,
        "max_tokens": MAX_TOKENS,
    }


async def closed_loop(ask: Ask, calls: int, at_a_time: int) -> dict[str, Any]:
    """As many calls at a time as allowed; CPU of this process per call."""
    await ask(-1)
    numbers = iter(range(calls))
    cpu, wall = time.process_time(), time.monotonic()

    async def work() -> None:
        for number in numbers:
            await ask(number)

    await asyncio.gather(*(work() for _ in range(at_a_time)))
    return {
        "cpu_ms_per_call": round((time.process_time() - cpu) / calls * 1e3, 4),
        "calls_per_s": round(calls / (time.monotonic() - wall), 1),
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10,
    }


async def open_loop(ask: Ask, calls: int, per_s: float) -> dict[str, Any]:
    """Calls at fixed times; how long each takes from then on."""
    await ask(-1)
    start, took = time.monotonic() + 0.1, []

    async def one(number: int) -> None:
        due = start + number / per_s
        await asyncio.sleep(due - time.monotonic())
        await ask(number)
        took.append(time.monotonic() - due)

    await asyncio.gather(*(one(number) for number in range(calls)))
    took.sort()
    return {f"p{percent}_ms": round(took[len(took) * percent // 100] * 1e3, 2) for percent in (50, 99)}


async def run(library: str, base_url: str, loop: str, calls: int, rate: int) -> dict[str, Any]:
    """`rate`: calls at a time in a closed loop, calls per second in an open one."""
    async with LIBRARIES[library](base_url) as ask:
        return await (closed_loop if loop == "closed" else open_loop)(ask, calls, rate)


class Peer:
    def __init__(self, base_url: str) -> None:
        self.base_url, self.url = base_url, f"{base_url}/chat/completions"

    async def __aexit__(self, *error: object) -> None:
        close = getattr(getattr(self, "client", None), "close", None) or getattr(self.client, "aclose", None)
        if close:
            await close()


class Aiohttp(Peer):
    async def __aenter__(self) -> Ask:
        aiohttp = importlib.import_module("aiohttp")
        self.client = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))

        async def ask(number: int) -> None:
            body = json.dumps(request(number)).encode()
            async with self.client.post(self.url, data=body, headers={"Content-Type": "application/json"}) as response:
                json.loads(await response.read())

        return ask


class Httpx(Peer):
    async def __aenter__(self) -> Ask:
        httpx = importlib.import_module("httpx2")
        limits = httpx.Limits(max_connections=512, max_keepalive_connections=512)
        self.client = httpx.AsyncClient(limits=limits, timeout=60, trust_env=False)

        async def ask(number: int) -> None:
            (await self.client.post(self.url, json=request(number))).json()

        return ask

    async def __aexit__(self, *error: object) -> None:
        await self.client.aclose()


class Niquests(Peer):
    async def __aenter__(self) -> Ask:
        self.client = importlib.import_module("niquests").AsyncSession(pool_connections=512, pool_maxsize=512)

        async def ask(number: int) -> None:
            (await self.client.post(self.url, json=request(number))).json()

        return ask


class OpenAi(Peer):
    async def __aenter__(self) -> Ask:
        openai = importlib.import_module("openai")
        self.client = openai.AsyncOpenAI(base_url=self.base_url, api_key="x", max_retries=0)

        async def ask(number: int) -> None:
            await self.client.chat.completions.create(**request(number))

        return ask


class LiteLlm(Peer):
    client = None

    async def __aenter__(self) -> Ask:
        litellm = importlib.import_module("litellm")
        litellm.telemetry = False

        async def ask(number: int) -> None:
            asked = {**request(number), "model": "openai/m"}
            await litellm.acompletion(**asked, api_base=self.base_url, api_key="x", num_retries=0)

        return ask

    async def __aexit__(self, *error: object) -> None:
        pass


LIBRARIES: dict[str, Any] = {
    "aiohttp": Aiohttp, "httpx2": Httpx, "niquests": Niquests, "openai": OpenAi, "litellm": LiteLlm,
}  # fmt: skip


def main() -> None:
    what, *rest = sys.argv[1:]
    sys.path.insert(0, str(Path(__file__).parents[1]))
    if what == "serve":
        asyncio.run(serve(float(rest[0])))
        return
    library, base_url, loop, calls, rate = rest
    if library == "ours":
        from llm_ours import ours

        result = ours(base_url, loop, int(calls), int(rate))
    else:
        result = asyncio.run(run(library, base_url, loop, int(calls), int(rate)))
    print(json.dumps(result))


if __name__ == "__main__":
    main()
