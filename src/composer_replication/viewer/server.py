"""The local server of `recompose view`: the page's own files, and answers as JSON. Everything but a vote is a GET."""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import orjson
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from composer_replication.errors import RecomposeError, UsageError

from .api import Library, encoded
from .guard import PageGuard, refused
from .visible import visible

MAX_VOTE_BYTES = 16_384
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".woff2": "font/woff2",
}


def page_files() -> dict[str, bytes]:
    """The built page, by name. Read once: what is not in here cannot be asked for."""
    folder = files("composer_replication.viewer") / "page"
    if not folder.is_dir():
        raise UsageError("the page of the viewer is not built", "make viewer")
    return {entry.name: entry.read_bytes() for entry in folder.iterdir() if Path(entry.name).suffix in TYPES}


def application(library: Library, port: int, token: str, page: dict[str, bytes]) -> Starlette:
    async def file(request: Request) -> Response:
        name = request.path_params.get("name") or "index.html"
        if name not in page:
            return refused(404, "no such file")
        return Response(page[name], media_type=TYPES[Path(name).suffix])

    async def runs(request: Request) -> Response:
        return await _answered(library.about)

    async def answer(request: Request) -> Response:
        path, who = request.path_params, request.scope["who"]
        return await _answered(lambda: library.answer(path["run"], path["name"], dict(request.query_params), who))

    async def vote(request: Request) -> Response:
        if request.headers.get("content-type", "").partition(";")[0] != "application/json":
            return refused(415, "a vote is JSON")
        body = bytearray()
        async for chunk in request.stream():
            body += chunk
            if len(body) > MAX_VOTE_BYTES:
                return refused(413, "a vote is short")
        path, who = request.path_params, request.scope["who"]
        return await _answered(lambda: library.vote(path["run"], _json(bytes(body)), who))

    return Starlette(
        routes=[
            Route("/", file),
            Route("/{name}", file),
            Route("/api/runs", runs),
            Route("/api/{run}/votes", vote, methods=["POST"]),
            Route("/api/{run}/{name}", answer),
        ],
        middleware=[Middleware(PageGuard, port=port, token=token)],
        exception_handlers={HTTPException: _http_error},
    )


async def _answered(ask: Callable[[], dict[str, Any]]) -> Response:
    """In a thread, so that a long look-up holds up nobody else."""
    try:
        return Response(encoded(await run_in_threadpool(ask)), media_type="application/json")
    except RecomposeError as error:
        status = 404 if isinstance(error, UsageError) else 500
        return refused(status, visible(str(error.args[0])), visible(error.next_command))
    except Exception as error:  # a damaged run must not end the server, nor print its text on a terminal
        return refused(500, visible(f"{type(error).__name__}: {error}")[:500])


def _json(body: bytes) -> Any:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise UsageError("a vote is JSON", "send an object") from error


async def _http_error(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    return refused(status, str(getattr(error, "detail", "error")))
