"""The fallback without namespaces, for machines that allow no bubblewrap: commands restricted by Landlock and seccomp.

It needs Landlock 6 (Linux 6.12), which also confines signals and abstract sockets. The command sees the host's own
paths but can open only some of the system's programs, its working folder and the read-only folders of the spec; /proc,
/sys and the rest of /etc are closed to it. It can make no socket at all, and so `loopback` is refused. Mentions of the
spec's paths in a command, its environment and its folder are rewritten to where they lie on the host; those in files
are not.

Run as root, commands run as a user of their own that exists nowhere else. Run as an ordinary user they share that user,
and calls that change modes, owners or times of files report success and do nothing: a path of yours could be meant.

Reads and writes what `local.py` says. Not stopped: what `bubblewrap.py` names; asking whether a known path exists, how
large it is and to whom it belongs; and seeing the host's name, users' numbers and load.
"""

from __future__ import annotations

import contextlib
import marshal
import os
import select
import socket
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO

from . import landlock_launcher
from .interface import (
    INSTALL,
    ExecResult,
    NetworkPolicy,
    SandboxFailure,
    SandboxRefusal,
    SandboxSpec,
    SandboxUnavailable,
)
from .limits import counted_by_the_kernel, new_group, resource_limits, threads_of_user
from .local import Command, HostPathsSandbox
from .process import Outcome, Running
from .seccomp import FilterPlan, build_filter, supported
from .system_root import ETC_COPIES, shown_paths
from .users import user_of_a_new_sandbox

NEEDED_VERSION = 6
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
START = "import sys; sys.path.append(sys.argv.pop(1)); import landlock_launcher; landlock_launcher.serve()"
"""Imported rather than run as a script, so that its compiled form is kept."""


def why_unavailable() -> str:
    try:
        with LandlockSandbox(SandboxSpec()) as sandbox:
            result = sandbox.exec(["/bin/sh", "-c", "! head -c 1 /proc/version 2>/dev/null && echo shut"])
    except (SandboxUnavailable, SandboxFailure, SandboxRefusal) as error:
        return str(error)
    return "" if result.stdout == b"shut\n" else "a command inside reads files of the host"


@cache
def _refuse_old_kernels() -> None:
    if not supported():
        raise SandboxUnavailable("no seccomp filter is known for this machine's processor")
    version = landlock_launcher.landlock_version()
    if version < NEEDED_VERSION:
        raise SandboxUnavailable(f"the kernel's Landlock is version {version}; {NEEDED_VERSION} is needed (Linux 6.12)")


class LandlockSandbox(HostPathsSandbox):
    def __init__(self, spec: SandboxSpec) -> None:
        _refuse_old_kernels()
        _refuse_network(spec.network)
        self._launcher = Launcher()
        self._stop_launcher = weakref.finalize(self, self._launcher.close)
        super().__init__(spec, user_of_a_new_sandbox())

    @property
    def backend(self) -> str:
        return "landlock"

    def kill(self) -> None:
        super().kill()
        self._stop_launcher()

    def _run(self, command: Command) -> ExecResult:
        started = time.monotonic()
        with contextlib.closing(new_group(self.spec.limits)) as group:
            process = self._launcher.launch(command.pass_fds)
            running = Running(process, process.control.close, started)
            with contextlib.closing(process), self._tracked(running), running.ended_on_error():
                group.add(process.pid)
                with process.plan, contextlib.suppress(BrokenPipeError):
                    process.plan.write(marshal.dumps(self._plan(command)))
                outcome = self._finish(running, command, process.pid)
                return _result(outcome, process.report.read(), group.ran_out_of_memory())

    def _plan(self, command: Command) -> landlock_launcher.Plan:
        calls = FilterPlan(
            self.spec.network,
            shared_host=True,
            shared_user=self.user is None,
            memory_is_counted=counted_by_the_kernel("memory"),
        )
        return (
            [self._rewritten(word) for word in command.argv],
            {name: self._rewritten(value) for name, value in command.env.items()},
            self._rewritten(command.cwd),
            -1 if self.user is None else self.user,
            self._limits(),
            [*_readable_system(), *map(str, self.shown.values())],
            [str(self.workspace.area)],
            [device for device in DEVICES if os.path.exists(device)],
            list(command.pass_fds),
            build_filter(calls),
        )

    def _limits(self) -> dict[int, int]:
        """Processes are counted per user: for a user with others running, theirs are added."""
        others = 0 if self.user is not None else threads_of_user(os.getuid())
        return resource_limits(self.spec.limits, others + self.spec.limits.processes)


def _refuse_network(policy: NetworkPolicy) -> None:
    if policy != "none":
        raise SandboxUnavailable(
            f"the landlock backend cannot hold the network policy {policy!r}: it has no network of its own",
            INSTALL,
        )


@cache
def _readable_system() -> tuple[str, ...]:
    etc = [f"/etc/{name}" for name in (*ETC_COPIES, "nsswitch.conf")]
    return (*shown_paths(), *(path for path in etc if os.path.exists(path)))


def _result(outcome: Outcome, report: bytes, out_of_memory: bool) -> ExecResult:
    if not report and outcome.ending == "exited" and not out_of_memory:
        raise SandboxFailure(f"the launcher ended early: {outcome.stderr.decode(errors='replace')[-300:]}")
    code, _, said = (report or b"137 ").partition(b" ")
    trouble = said.decode(errors="replace")
    if trouble.startswith("chdir"):
        raise SandboxRefusal(f"no such folder to start in: {trouble}")
    if trouble.startswith("setup"):
        raise SandboxFailure(f"the restrictions could not be put in place: {trouble}")
    ending = "memory" if out_of_memory else outcome.ending
    return ExecResult(int(code), outcome.stdout, outcome.stderr + said, ending, outcome.wall_s, outcome.truncated)


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
    """One helper process per sandbox, which forks for each command: a new interpreter for each would cost more than the
    command. Started with the first one."""

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
