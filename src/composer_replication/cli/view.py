"""`recompose view RUN`"""

from __future__ import annotations

import contextlib
import secrets
import socket
import threading
import webbrowser
from collections.abc import Generator
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from composer_replication.errors import UsageError

from .arguments import RunFolder
from .progress import open_progress

HOST = "127.0.0.1"


def view(
    run: RunFolder,
    /,
    *others: Annotated[Path, Parameter(help="Further runs, to compare.")],
    port: Annotated[int, Parameter(help="0 takes any that is free.")] = 0,
    no_browser: Annotated[bool, Parameter(negative="", help="Only print the address.")] = False,
    export: Annotated[
        Path | None, Parameter(help="Write a folder that opens without a server, and end.", show_default=False)
    ] = None,
) -> None:
    """Look at RUN in a browser: funnel, traces, sites, pairs, rollouts, tokens, training, comparison, monitor, search.

    Serves on this machine only and changes nothing but RUN/annotations (votes) and RUN/cache.
    """
    try:
        import uvicorn

        from composer_replication.viewer.server import application, page_files
    except ModuleNotFoundError as error:
        raise UsageError(f"{error.name} is not installed", "pip install 'composer-replication[viewer]'") from error
    from composer_replication.viewer.api import Library
    from composer_replication.viewer.export import export as write_export

    if not 0 <= port <= 65535:
        raise UsageError("--port is a number up to 65535", "recompose view RUN")
    page, library = page_files(), Library([run, *others])
    if export is not None:
        with contextlib.closing(open_progress()) as progress:
            number = write_export(library, export, page, progress)
        size = sum(file.stat().st_size for file in export.rglob("*")) / 1e6
        print(f"{number} views of the run (lists, records, charts), each in a file, {size:.0f} MB: a snapshot of now")
        print(f"open {export / 'index.html'}; when the run has gone on, export it again into another folder")
        return
    with _listening(port) as listener:
        port, token = listener.getsockname()[1], secrets.token_urlsafe(24)
        address = f"http://{HOST}:{port}/?token={token}"
        print(address, flush=True)
        threading.Thread(target=library.prepare, daemon=True).start()
        if not no_browser:
            threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
        app = application(library, port, token, page)
        # Lines of its log would hold the token.
        server = uvicorn.Server(uvicorn.Config(app, log_level="critical", access_log=False, server_header=False))
        try:
            with contextlib.suppress(KeyboardInterrupt):  # how one leaves it
                server.run(sockets=[listener])
        finally:
            library.close()


@contextlib.contextmanager
def _listening(port: int) -> Generator[socket.socket]:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        try:
            listener.bind((HOST, port))
            listener.listen()  # from here on a browser that comes early waits and is not refused
        except OSError as error:
            raise UsageError(f"port {port} is taken", "give another --port") from error
        yield listener
    finally:
        listener.close()
