"""The seam to the HTTP library: one POST or GET, with caps on time, size and headers. Nothing is tried again here.

The library is aiohttp because it took the least CPU per call of the well-kept ones (benchmarks/llm_client.py).
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Collection, Mapping
from types import TracebackType
from typing import NamedTuple, Protocol

import aiohttp

from .addresses import PublicResolver
from .keys import ApiKey

MAX_RESPONSE_BYTES = 8 << 20
MAX_HEADER_BYTES = 8190
GENERATION_HEADER = "X-Generation-Id"
_CHUNK_BYTES = 1 << 16


class Response(NamedTuple):
    status: int
    body: bytes
    retry_after: str | None = None
    generation: str | None = None
    date: str | None = None
    """The server's clock."""


class NotSent(Exception):
    """The connection was not made: nothing can have been charged."""


class Ambiguous(Exception):
    """The request went out and no whole answer came back: it may have been charged."""

    def __init__(self, reason: str, generation: str | None = None) -> None:
        super().__init__(reason)
        self.generation = generation


class Transport(Protocol):
    async def post(
        self, url: str, body: bytes, key: ApiKey | None, headers: Mapping[str, str] | None = None
    ) -> Response: ...

    async def get(self, url: str, key: ApiKey | None, headers: Mapping[str, str] | None = None) -> Response: ...


class HttpTransport:
    """Redirects, proxies of the environment, cookies and decompression by the library are off.

    `private_hosts`: names that may lead to a private address, because the user said so.
    """

    def __init__(
        self, timeout_s: float, private_hosts: Collection[str] = (), max_response_bytes: int | None = None
    ) -> None:
        self._max_bytes = max_response_bytes
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, resolver=PublicResolver(private_hosts), ttl_dns_cache=60),
            timeout=aiohttp.ClientTimeout(total=timeout_s),
            headers={"Accept-Encoding": "identity", "Content-Type": "application/json"},
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            trust_env=False,
            max_line_size=MAX_HEADER_BYTES,
            max_field_size=MAX_HEADER_BYTES,
        )

    async def __aenter__(self) -> HttpTransport:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._session.close()

    async def post(
        self, url: str, body: bytes, key: ApiKey | None, headers: Mapping[str, str] | None = None
    ) -> Response:
        return await self._request("POST", url, body, key, headers)

    async def get(self, url: str, key: ApiKey | None, headers: Mapping[str, str] | None = None) -> Response:
        return await self._request("GET", url, None, key, headers)

    async def _request(
        self, method: str, url: str, body: bytes | None, key: ApiKey | None, more: Mapping[str, str] | None
    ) -> Response:
        headers = {**(more or {}), **(key.headers() if key else {})}
        limit = self._max_bytes or MAX_RESPONSE_BYTES
        generation: str | None = None
        try:
            async with self._session.request(
                method, url, data=body, headers=headers, allow_redirects=False
            ) as response:
                generation = response.headers.get(GENERATION_HEADER)
                raw = await _read(response, limit)
                encoding = response.headers.get("Content-Encoding", "identity")
                retry_after, date = (response.headers.get(name) for name in ("Retry-After", "Date"))
                return Response(response.status, _plain(raw, encoding, limit), retry_after, generation, date)
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError, aiohttp.InvalidURL) as error:
            raise NotSent(f"{type(error).__name__}: {error}") from error
        except TimeoutError as error:
            raise Ambiguous("timeout", generation) from error
        except (aiohttp.ClientError, OSError, ValueError, zlib.error, asyncio.IncompleteReadError) as error:
            # The text of an error may quote the server; its type says enough.
            reason = str(error) if isinstance(error, _TooLarge) else f"connection broke: {type(error).__name__}"
            raise Ambiguous(reason, generation) from error


class _TooLarge(ValueError):
    pass


async def _read(response: aiohttp.ClientResponse, limit: int) -> bytes:
    length = response.content_length
    if length is not None and length > limit:
        raise _TooLarge("response too large")
    body = bytearray()
    async for chunk in response.content.iter_chunked(_CHUNK_BYTES):
        body += chunk
        if len(body) > limit:
            raise _TooLarge("response too large")
    return bytes(body)


def _plain(raw: bytes, encoding: str, limit: int) -> bytes:
    """Some servers compress unasked. What a small body unpacks to is capped like any other."""
    if encoding in ("identity", ""):
        return raw
    if encoding not in ("gzip", "deflate"):
        raise ValueError("an encoding that was not asked for")
    body = zlib.decompressobj(zlib.MAX_WBITS | 32).decompress(raw, limit + 1)
    if len(body) > limit:
        raise _TooLarge("response too large")
    return body
