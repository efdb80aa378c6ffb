"""Runs inside the sandbox, sent on the command line: opens the one way out, and starts the harness.

Arguments: a port, the path of the proxy's socket, then the command. Each connection to the port of the sandbox's own
loopback is carried to the socket. Ends with the exit code of the command. Needs the standard library alone.
"""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import threading

CHUNK_BYTES = 1 << 16
WAITING = 128


def carry(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while chunk := source.recv(CHUNK_BYTES):
            target.sendall(chunk)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)


def connect(client: socket.socket, path: str) -> None:
    with client, socket.socket(socket.AF_UNIX) as proxy:
        proxy.connect(path)
        back = threading.Thread(target=carry, args=(proxy, client), daemon=True)
        back.start()
        carry(client, proxy)
        back.join()


def serve(server: socket.socket, path: str) -> None:
    while True:
        client, _ = server.accept()
        threading.Thread(target=connect, args=(client, path), daemon=True).start()


def main(port: int, path: str, command: list[str]) -> int:
    server = socket.create_server(("127.0.0.1", port), backlog=WAITING)
    threading.Thread(target=serve, args=(server, path), daemon=True).start()
    return subprocess.run(command, check=False).returncode  # noqa: S603 - the sandbox's own business


if __name__ == "__main__":
    ended = main(int(sys.argv[1]), sys.argv[2], sys.argv[3:])
    sys.exit(128 - ended if ended < 0 else ended)
