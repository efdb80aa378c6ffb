"""One attempt at an OpenAI-compatible chat completion. Retrying is the caller's decision, because a retry may be paid.

Only loopback servers are asked in this version: a spending cap comes before anything leaves the machine.
"""

from __future__ import annotations

import ipaddress
import time
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import httpx2 as httpx

from composer_replication.errors import UsageError

from .gate import secret_in

MAX_RESPONSE_BYTES = 1 << 20


class Attempt(NamedTuple):
    """What came back: the raw body of an HTTP 200, or why there is none."""

    body: str | None
    failure: str | None
    latency_s: float


def require_loopback(base_url: str) -> None:
    try:
        host = urlsplit(base_url).hostname or ""
        loopback = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        loopback = False
    if not loopback:
        raise UsageError(f"{base_url} is not on this machine, and there is no spending cap", "use a loopback server")


def open_client(concurrency: int, timeout_s: float) -> httpx.AsyncClient:
    limits = httpx.Limits(max_connections=concurrency, max_keepalive_connections=concurrency)
    return httpx.AsyncClient(limits=limits, timeout=timeout_s, follow_redirects=False, trust_env=False)


async def complete(client: httpx.AsyncClient, base_url: str, request: dict[str, Any]) -> Attempt:
    require_loopback(base_url)
    if kind := secret_in(request):
        return Attempt(None, f"not sent: the request holds a secret ({kind})", 0.0)
    started = time.monotonic()
    try:
        async with client.stream("POST", f"{base_url}/chat/completions", json=request) as response:
            chunks = bytearray()
            async for chunk in response.aiter_bytes():
                chunks += chunk
                if len(chunks) > MAX_RESPONSE_BYTES:
                    return Attempt(None, "response too large", time.monotonic() - started)
    except (httpx.HTTPError, httpx.InvalidURL, OSError, ExceptionGroup) as error:
        return Attempt(None, f"{type(error).__name__}: {error}", time.monotonic() - started)
    latency_s = time.monotonic() - started
    if response.status_code != 200:
        return Attempt(None, f"HTTP {response.status_code}", latency_s)
    return Attempt(chunks.decode("utf-8", errors="replace"), None, latency_s)
