"""What stands before the OpenEnv application: who may come in, and for how long one may say nothing.

OpenEnv ends idle sessions by a timer of its own, but leaves their WebSocket open, counts a long step as silence, and
knows no passwords. So a client that says nothing for `idle_s` is disconnected here, which ends its session too; steps
in progress are not silence. Pages in a browser are refused unless they come from this machine.

With a token there are two sides: the trainer's (everything) has it; the agent's has only the id of its session, which
lets it list and call tools over `POST /mcp` and nothing else.
"""

from __future__ import annotations

import asyncio
import hmac
from contextlib import suppress
from typing import Any, cast
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocketClose

from composer_replication.environments.untrusted import read_json
from composer_replication.llm.addresses import is_loopback

GOING_AWAY = 1001
MAX_BODY_BYTES = 4 << 20
OPEN_PATHS = frozenset({"/health"})
AGENT_METHODS = frozenset({"tools/list", "tools/call"})


class Guard:
    """An ASGI application around another one."""

    def __init__(self, app: ASGIApp, idle_s: float, token: str | None) -> None:
        self._app, self._idle_s, self._token = app, idle_s, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
        elif not _from_this_machine(scope):
            await _refuse(scope, receive, send, 403, "pages of other origins are refused")
        elif scope["type"] == "websocket":
            await self._socket(scope, receive, send)
        else:
            await self._request(scope, receive, send)

    async def _socket(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not self._has_token(scope):
            await _refuse(scope, receive, send, 401, "the token is missing or wrong")
            return
        forgiving = _to_whom_it_may_concern(send)
        await self._app(scope, self._impatient(receive, forgiving), forgiving)

    async def _request(self, scope: Scope, receive: Receive, send: Send) -> None:
        receive = self._impatient(receive)
        if self._has_token(scope) or scope["path"] in OPEN_PATHS:
            await self._app(scope, receive, send)
            return
        if scope["path"] == "/mcp" and scope["method"] == "POST":
            body = await _whole_body(receive)
            if body is not None and _is_agents(body):
                await self._app(scope, replayed(body, receive), send)
                return
        await _refuse(scope, receive, send, 401, "the token is missing or wrong")

    def _has_token(self, scope: Scope) -> bool:
        if self._token is None:
            return True
        given = Headers(scope=scope).get("authorization", "")
        return hmac.compare_digest(given.encode("latin-1"), f"Bearer {self._token}".encode())

    def _impatient(self, receive: Receive, send: Send | None = None) -> Receive:
        """A request whose body does not come is as good as gone; a socket is told so by `send`."""

        async def receive_in_time() -> Message:
            try:
                async with asyncio.timeout(self._idle_s):
                    return await receive()
            except TimeoutError:
                if send is None:
                    return {"type": "http.disconnect"}
                await send({"type": "websocket.close", "code": GOING_AWAY, "reason": "idle"})
                return {"type": "websocket.disconnect", "code": GOING_AWAY}

        return receive_in_time


def _to_whom_it_may_concern(send: Send) -> Send:
    """An answer to a client that is gone is dropped; the next `receive` tells the application so."""

    async def send_if_possible(message: Message) -> None:
        with suppress(OSError):
            await send(message)

    return send_if_possible


def _from_this_machine(scope: Scope) -> bool:
    """Only browsers send an origin."""
    origin = Headers(scope=scope).get("origin", "")
    return not origin or (urlsplit(origin).scheme in ("http", "https") and is_loopback(origin))


def _is_agents(body: bytes) -> bool:
    """A tool call that names its session, whose id is the agent's pass."""
    try:
        asked: Any = read_json(body)
        params = asked.get("params") or {}
        return asked.get("method") in AGENT_METHODS and bool(params.get("session_id"))
    except (ValueError, AttributeError):
        return False


async def _whole_body(receive: Receive) -> bytes | None:
    body, more = bytearray(), True
    while more:
        message = await receive()
        if message["type"] != "http.request":
            return None
        body += cast(bytes, message.get("body", b""))
        more = bool(message.get("more_body"))
        if len(body) > MAX_BODY_BYTES:
            return None
    return bytes(body)


def replayed(body: bytes, receive: Receive) -> Receive:
    """What was read already, and then what follows."""
    sent = False

    async def receive_again() -> Message:
        nonlocal sent
        if sent:
            return await receive()
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive_again


async def _refuse(scope: Scope, receive: Receive, send: Send, status: int, why: str) -> None:
    if scope["type"] == "websocket":
        await receive()
        answer = WebSocketClose(1008, why)
    else:
        answer = JSONResponse({"detail": why}, status)
    await answer(scope, receive, send)
