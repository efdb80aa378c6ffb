"""`recompose env serve TASKS`"""

from __future__ import annotations

import json as json_module
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from composer_replication.errors import UsageError

from .common import Json, quiet_libraries

TOKEN_VARIABLE = "RECOMPOSE_SERVE_TOKEN"  # noqa: S105 - the name of a variable
SHORTEST_TOKEN = 16
LAST_PORT = 65535


def serve(
    tasks: Annotated[Path, Parameter(help="What `recompose env make` wrote, or one task.")],
    /,
    *,
    host: Annotated[str, Parameter(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, Parameter(help="TCP port; 0 takes a free one.")] = 8765,
    public: Annotated[
        bool, Parameter(negative="", help=f"Allow another address than loopback; needs a token in {TOKEN_VARIABLE}.")
    ] = False,
    max_sessions: Annotated[int, Parameter(help="Sandboxes at a time; more clients are refused.")] = 64,
    idle_s: Annotated[float, Parameter(help="A client that is silent for so long loses its session.")] = 300.0,
    steps: Annotated[int, Parameter(help="Tool calls of one session.")] = 60,
    wall_s: Annotated[float, Parameter(help="Seconds of one session.")] = 1800.0,
    backend: Annotated[str, Parameter(help="Which sandbox.")] = "auto",
    json: Json = False,
) -> None:
    """Serve code tasks over OpenEnv until interrupted: `/ws` for trainers, `/mcp` for agents.

    Where RECOMPOSE_SERVE_TOKEN is set, trainers send it as a bearer token; agents need only the id of their session.
    """
    quiet_libraries()
    from composer_replication.llm.addresses import is_loopback

    if not is_loopback(f"http://{host}") and not public:
        raise UsageError(f"{host} can be reached by others", f"add --public and set {TOKEN_VARIABLE}")
    if min(max_sessions, steps) < 1 or min(idle_s, wall_s) <= 0:
        raise UsageError("sessions, steps and seconds are above 0", "recompose env serve --help")
    if not 0 <= port <= LAST_PORT:
        raise UsageError(f"--port {port} is no TCP port", f"choose one from 0 to {LAST_PORT}")
    token = os.environ.get(TOKEN_VARIABLE, "").strip() or None
    if token and len(token) < SHORTEST_TOKEN:
        raise UsageError(f"the token in {TOKEN_VARIABLE} is short", f"use {SHORTEST_TOKEN} characters or more")
    from composer_replication.environments.code.episodes.session import SessionLimits
    from composer_replication.environments.code.serving.server import ServerSettings, listen
    from composer_replication.environments.code.serving.server import serve as serve_tasks
    from composer_replication.environments.code.tasks.store import read_tasks

    found = read_tasks(tasks)
    settings = ServerSettings(host, port, max_sessions, idle_s, token, backend)
    settings.check()
    sockets = listen(settings)
    where = f"http://{host}:{sockets[0].getsockname()[1]}"
    if json:
        print(json_module.dumps({"url": where, "tasks": len(found), "max_sessions": max_sessions}), flush=True)
    else:
        print(
            f"{len(found)} tasks at {where}, up to {max_sessions} sessions; Ctrl-C ends it", file=sys.stderr, flush=True
        )
    with suppress(KeyboardInterrupt):
        serve_tasks(found, settings, SessionLimits(steps=steps, wall_s=wall_s), sockets)
