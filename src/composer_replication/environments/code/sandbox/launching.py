"""The host's end of `landlock_launcher.py`: one helper process per sandbox, which forks for each command.

A new interpreter for each command would cost more than the command. Writes nothing; the helper ends with the sandbox.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from .errors import SandboxFailure

START = "import sys; sys.path.append(sys.argv.pop(1)); import landlock_launcher; landlock_launcher.serve()"
"""Imported rather than run as a script, so that its compiled form is kept."""


@dataclass
class Launched:
    """The process that looks after one command; a grandchild, so that only its end can be seen, not its status."""

    pid: int
    handle: int
    stdin: IO[bytes] | None
    stdout: IO[bytes] | None
    stderr: IO[bytes] | None
    plan: IO[bytes]
    control: IO[bytes]
    report: IO[bytes]

    def poll(self) -> int | None:
        return 0 if self._ended_within(0) else None

    def wait(self) -> int:
        self._ended_within(None)
        return 0

    def _ended_within(self, milliseconds: int | None) -> bool:
        poll = select.poll()
        poll.register(self.handle, select.POLLIN)
        return bool(poll.poll(milliseconds))

    def close(self) -> None:
        os.close(self.handle)
        for pipe in (self.stdin, self.stdout, self.stderr, self.plan, self.control, self.report):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()


class Launcher:
    """Started with the first command."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owner = os.getpid()
        self._helper: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None

    def launch(self, pass_fds: Sequence[int]) -> Launched:
        """The process waits for its plan."""
        pipes = [os.pipe() for _ in range(6)]
        stdin, stdout, stderr, plan, control, report = pipes
        theirs = [stdin[0], stdout[1], stderr[1], plan[0], control[0], report[1]]
        ours = [stdin[1], stdout[0], stderr[0], plan[1], control[1], report[0]]
        try:
            with self._lock:
                connection = self._connected()
                socket.send_fds(connection, [b"c"], [*theirs, *pass_fds])
                pid = int(connection.recv(32) or b"0")
            if not pid:
                raise OSError("it has ended")
            handle = os.pidfd_open(pid)
        except OSError as error:
            for descriptor in ours:
                os.close(descriptor)
            raise SandboxFailure(f"the launcher did not start a command: {error}") from None
        finally:
            for descriptor in theirs:
                os.close(descriptor)
        files = [os.fdopen(fd, mode) for fd, mode in zip(ours, ("wb", "rb", "rb", "wb", "wb", "rb"), strict=True)]
        return Launched(pid, handle, *files)

    def _connected(self) -> socket.socket:
        if self._socket is None:
            self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with theirs:
                self._helper = subprocess.Popen(  # noqa: S603
                    [sys.executable, "-I", "-S", "-c", START, str(Path(__file__).parent), str(theirs.fileno())],
                    env={},
                    cwd="/",
                    stdin=subprocess.DEVNULL,
                    pass_fds=(theirs.fileno(),),
                )
        return self._socket

    def close(self) -> None:
        if self._helper is not None and self._socket is not None and self._owner == os.getpid():
            self._socket.close()
            self._helper.kill()
            self._helper.wait()
            self._helper = None
