"""Requests to a sampling server: tried again where it is busy or away, told in a sentence where it stays so."""

from __future__ import annotations

import asyncio
import random
from json import JSONDecodeError
from typing import Any

import aiohttp

from composer_replication.config import SamplingConfig
from composer_replication.errors import RecomposeError, UsageError

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 30.0
TOO_MANY, SERVER_ERROR = 429, 500
TOLD_CHARS = 300


class Wire:
    """JSON to and from one server. An answer of 429 or 5xx, a broken connection and a timeout are tried again."""

    def __init__(self, settings: SamplingConfig) -> None:
        assert settings.server is not None
        self.url = settings.server.rstrip("/")
        self._settings = settings

    def session(self) -> aiohttp.ClientSession:
        """To be closed by whoever opens it, in the same loop."""
        return aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=self._settings.timeout_s),
            connector=aiohttp.TCPConnector(limit=self._settings.in_flight),
        )

    async def ask(self, session: aiohttp.ClientSession, path: str, body: dict[str, Any] | None = None) -> Any:
        """POST with a body, else GET."""
        why = ""
        for attempt in range(self._settings.max_attempts):
            if attempt:
                await asyncio.sleep(_pause(attempt))
            try:
                method, url = "GET" if body is None else "POST", self.url + path
                async with session.request(method, url, json=body, allow_redirects=False) as answer:
                    if answer.ok:
                        return await answer.json()
                    why = f"{answer.status} {(await answer.text())[:TOLD_CHARS]}".strip()
                    if answer.status != TOO_MANY and answer.status < SERVER_ERROR:
                        raise UsageError(f"{self.url}{path} refused: {why}", "docs/rollouts.md says what it must serve")
            except (aiohttp.ClientError, TimeoutError, JSONDecodeError) as error:
                why = f"{type(error).__name__}: {error}".rstrip(": ")
        raise RecomposeError(
            f"the sampling server {self.url} did not answer {path} in {self._settings.max_attempts} tries: {why}",
            "start it again, then the same command",
        )

    def ask_once(self, path: str, body: dict[str, Any] | None = None) -> Any:
        """The same where no loop runs."""

        async def ask() -> Any:
            async with self.session() as session:
                return await self.ask(session, path, body)

        return asyncio.run(ask())


def gives_up_after_s(settings: SamplingConfig) -> float:
    """The longest that `Wire.ask` may take, all its tries together."""
    return settings.max_attempts * (settings.timeout_s + LONGEST_PAUSE_S)


def _pause(attempt: int) -> float:
    """Twice as long each time, up to a quarter shorter, so that many callers do not come back together."""
    return min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2 ** (attempt - 1)) * random.uniform(0.75, 1.0)
