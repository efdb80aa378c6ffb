"""The server behind `recompose env serve`: OpenEnv's own application with a cap, a guard and a short patience.

`/reset`, `/step` and `/state` over plain HTTP are left out: they keep no session, so each call would cost a sandbox
that no cap counts. Loopback unless told otherwise; another address needs a token. A connection that never sends a
request is closed after `HELLO_S`.
"""

from __future__ import annotations

import asyncio
import errno
import resource
import socket
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import uvicorn
from openenv.core.env_server.http_server import HTTPEnvServer
from openenv.core.env_server.mcp_types import CallToolAction, CallToolObservation
from openenv.core.env_server.types import ConcurrencyConfig, ServerMode
from uvicorn.protocols.http.h11_impl import H11Protocol

from composer_replication.errors import UsageError
from composer_replication.llm.addresses import is_loopback

from ..episodes.session import SessionLimits
from ..tasks.task import TaskFolder
from .guard import Guard
from .openenv_environment import CodeTaskEnvironment, TaskObservation, TaskState

HELLO_S = 10.0
GRADING_S = 300.0
MAX_MESSAGE_BYTES = 4 << 20
BACKLOG = min(4096, socket.SOMAXCONN)


@dataclass(frozen=True)
class ServerSettings:
    host: str = "127.0.0.1"
    port: int = 8765
    max_sessions: int = 64
    idle_s: float = 300.0
    """A client that says nothing for so long loses its session."""
    token: str | None = None
    backend: str = "auto"
    hello_s: float = HELLO_S

    def check(self) -> None:
        if not is_loopback(f"http://{self.host}") and not self.token:
            raise UsageError(
                f"{self.host} can be reached by others",
                "add --public and put a token into RECOMPOSE_SERVE_TOKEN, or leave --host at 127.0.0.1",
            )


def build_app(tasks: Sequence[TaskFolder], settings: ServerSettings, limits: SessionLimits | None = None) -> Guard:
    """The application, for any ASGI server. Raises where it would listen to others without a token."""
    from fastapi import FastAPI

    settings.check()
    limits = limits or SessionLimits()
    app = FastAPI(title="composer-replication code tasks", openapi_url=None)
    server = HTTPEnvServer(
        lambda: CodeTaskEnvironment(tasks, settings.backend, limits),
        CallToolAction,
        CallToolObservation,
        concurrency_config=ConcurrencyConfig(
            max_concurrent_envs=settings.max_sessions,
            # OpenEnv counts from the end of the last step: a step in progress must fit in.
            session_timeout=settings.idle_s + limits.command_s + GRADING_S,
        ),
        env_name="code_tasks",
        state_cls=TaskState,
        reset_observation_cls=TaskObservation,
    )
    server.register_routes(app, mode=ServerMode.PRODUCTION)

    @app.get("/capacity")
    def capacity() -> dict[str, int]:  # pyright: ignore[reportUnusedFunction]
        status = server.get_capacity_status()
        return {"active_sessions": status.active_sessions, "max_sessions": status.max_sessions}

    return Guard(app, settings.idle_s, settings.token)


class PatientProtocol(H11Protocol):
    """HTTP for clients that ask something soon after they have connected."""

    hello_s = HELLO_S

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        asyncio.get_running_loop().call_later(self.hello_s, self._close_if_silent)

    def _close_if_silent(self) -> None:
        is_upgraded = self.transport.get_protocol() is not self
        if not is_upgraded and self.cycle is None and not self.transport.is_closing():  # pyright: ignore[reportUnnecessaryComparison]
            self.transport.close()


def listen(settings: ServerSettings) -> list[socket.socket]:
    """At every address that the host has; at one of them where any free port will do. From here on clients can come."""
    sockets: list[socket.socket] = []
    missing: OSError | None = None
    try:
        found = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, _, _, _, address in found:
            if sockets and not settings.port:
                break
            try:
                sockets.append(socket.create_server(address[:2], family=family, backlog=BACKLOG))
            except OSError as error:
                if error.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                    raise
                missing = error
        if missing and not sockets:
            raise missing
    except OSError as error:
        for each in sockets:
            each.close()
        reason = str(error.strerror).partition(" (")[0]
        raise UsageError(
            f"cannot listen at {settings.host}:{settings.port}: {reason}", "choose another --port or --host"
        ) from error
    return sockets


def serve(
    tasks: Sequence[TaskFolder],
    settings: ServerSettings,
    limits: SessionLimits | None = None,
    sockets: list[socket.socket] | None = None,
) -> None:
    """Until it is interrupted, at `sockets` if they are given."""
    server = uvicorn.Server(server_config(build_app(tasks, settings, limits), settings))
    server.run(sockets if sockets is not None else listen(settings))


def server_config(app: Any, settings: ServerSettings) -> uvicorn.Config:
    _allow_many_files()
    protocol = type("Patient", (PatientProtocol,), {"hello_s": settings.hello_s})
    return uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        http=protocol,
        ws="websockets-sansio",
        ws_max_size=MAX_MESSAGE_BYTES,
        backlog=BACKLOG,
        log_level="warning",
        timeout_graceful_shutdown=10,
    )


def _allow_many_files() -> None:
    """Each session and each waiting client takes a few descriptors."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
