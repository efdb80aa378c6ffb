"""A person at a shell inside a sandbox: the terminal's keys go in, what is printed comes out.

Without a terminal the commands are read from standard input. Reads and writes standard input and output alone.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import struct
import sys
import termios
import threading
import tty
from collections.abc import Generator

from .interface import Sandbox

SHELL = "/bin/bash"
BECOME_A_SHELL = """
import fcntl, os, sys, termios
terminal = int(sys.argv[1])
os.setsid()
fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
for number in (0, 1, 2):
    os.dup2(terminal, number)
os.execv(sys.argv[2], [sys.argv[2], "--norc", "-i"])
"""


def run_shell(sandbox: Sandbox, python: str, wall_s: float) -> int:
    """Until the shell ends. Gives its exit code. `python` is the interpreter inside."""
    if not sys.stdin.isatty():
        result = sandbox.exec([SHELL], stdin=sys.stdin.buffer.read(), timeout_s=wall_s)
        sys.stdout.buffer.write(result.stdout + result.stderr)
        return result.exit_code
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, fcntl.ioctl(sys.stdin, termios.TIOCGWINSZ, struct.pack("HHHH", 0, 0, 0, 0)))
    ended = threading.Event()
    relay = threading.Thread(target=_relay, args=(ours, ended), daemon=True)
    with _raw_keys(sys.stdin.fileno()):
        relay.start()
        try:
            command = [python, "-c", BECOME_A_SHELL, str(theirs), SHELL]
            look = {"TERM": os.environ.get("TERM", "dumb"), "PS1": r"\w$ "}
            return sandbox.exec(command, env=look, pass_fds=(theirs,), timeout_s=wall_s).exit_code
        finally:
            ended.set()
            relay.join()
            os.close(theirs)
            os.close(ours)


def _relay(terminal: int, ended: threading.Event) -> None:
    keys, screen = sys.stdin.fileno(), sys.stdout.fileno()
    while True:
        ready = select.select([terminal, keys], [], [], 0.1)[0]
        if terminal in ready:
            os.write(screen, os.read(terminal, 1 << 16))
        elif ended.is_set():
            return
        elif keys in ready:
            os.write(terminal, os.read(keys, 1 << 12))


@contextlib.contextmanager
def _raw_keys(keyboard: int) -> Generator[None]:
    """Every key goes inside, Ctrl-C too."""
    before = termios.tcgetattr(keyboard)
    tty.setraw(keyboard, termios.TCSADRAIN)
    try:
        yield
    finally:
        termios.tcsetattr(keyboard, termios.TCSADRAIN, before)
