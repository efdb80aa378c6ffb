"""Where requests may go: loopback, or a public host over https. Names are checked again after they are resolved."""

from __future__ import annotations

import ipaddress
import socket
from urllib.parse import urlsplit

from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import ThreadedResolver

from composer_replication.errors import UsageError

OPENROUTER_HOST = "openrouter.ai"


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


def require_allowed(base_url: str) -> None:
    """http for loopback, https for everybody else, no names and passwords, no private address."""
    try:
        parts = urlsplit(base_url)
        host, clean = parts.hostname or "", not (parts.username or parts.password or parts.query or parts.fragment)
        port_is_good = parts.port is None or parts.port > 0
    except ValueError:
        parts, host, clean, port_is_good = None, "", False, False
    if not parts or not host or not clean or not port_is_good or parts.scheme not in ("http", "https"):
        raise UsageError(f"{base_url} is not the address of a server", "give one like https://openrouter.ai/api/v1")
    if is_loopback(base_url):
        return
    if parts.scheme != "https":
        raise UsageError(f"{base_url} would send in clear text", "use https, or a loopback server")
    try:
        private = not ipaddress.ip_address(host).is_global
    except ValueError:
        private = False
    if private:
        raise UsageError(f"{base_url} is a private address", "use a public host, or loopback (ssh -L forwards a port)")


class PublicResolver(AbstractResolver):
    """A name that leads to a private address is not connected to; `localhost` must lead to loopback."""

    def __init__(self) -> None:
        self._resolver = ThreadedResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        found = await self._resolver.resolve(host, port, family)
        for item in found:
            address = ipaddress.ip_address(item["host"].partition("%")[0])
            if not (address.is_loopback if host == "localhost" else address.is_global):
                raise OSError(None, f"{host} leads to the private address {address}")
        return found

    async def close(self) -> None:
        await self._resolver.close()
