"""Where requests may go: loopback, or over https a public host, or a private one that the user named as such. Names are
checked again after they are resolved.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Collection
from urllib.parse import urlsplit

from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import ThreadedResolver

from composer_replication.errors import UsageError

OPENROUTER_HOST = "openrouter.ai"
_QUERY = re.compile(r"(api-version=[\w.-]+)?")
"""All that an address may ask: Azure's version."""


def host_of(base_url: str) -> str:
    try:
        return urlsplit(base_url).hostname or ""
    except ValueError:
        return ""


def is_loopback(base_url: str) -> bool:
    host = host_of(base_url)
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_openrouter(base_url: str) -> bool:
    return host_of(base_url) == OPENROUTER_HOST


def require_loopback(base_url: str) -> None:
    if not is_loopback(base_url):
        raise UsageError(f"{base_url} is not on this machine", "use a loopback server")


def require_allowed(base_url: str, private_network: bool = False) -> None:
    """http for loopback, https for everybody else, no names and passwords, no private address that was not named."""
    try:
        parts = urlsplit(base_url)
        host, clean = parts.hostname or "", not (parts.username or parts.password or parts.fragment)
        clean = clean and bool(_QUERY.fullmatch(parts.query))
        port_is_good = parts.port is None or parts.port > 0
    except ValueError:
        parts, host, clean, port_is_good = None, "", False, False
    if not parts or not host or not clean or not port_is_good or parts.scheme not in ("http", "https"):
        shown = base_url.partition("?")[0].rpartition("@")[2]  # without what may be a key
        raise UsageError(f"{shown} is not the address of a server", "give one like https://openrouter.ai/api/v1")
    if is_loopback(base_url):
        return
    if parts.scheme != "https":
        raise UsageError(f"{base_url} would send in clear text", "use https, or a loopback server")
    try:
        private = not ipaddress.ip_address(host).is_global
    except ValueError:
        private = False
    if private and not private_network:
        raise UsageError(
            f"{base_url} is a private address",
            "say `private_network = true` in its [replay.models] entry, or use a public host or loopback",
        )


class PublicResolver(AbstractResolver):
    """A name that leads to a private address is not connected to, unless it is one of `private_hosts`; `localhost` must
    lead to loopback."""

    def __init__(self, private_hosts: Collection[str] = ()) -> None:
        self._resolver = ThreadedResolver()
        self._private_hosts = private_hosts

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        found = await self._resolver.resolve(host, port, family)
        for item in found:
            address = ipaddress.ip_address(item["host"].partition("%")[0])
            allowed = address.is_loopback if host == "localhost" else address.is_global
            if not allowed and host not in self._private_hosts:
                raise OSError(None, f"{host} leads to the private address {address}")
        return found

    async def close(self) -> None:
        await self._resolver.close()
