"""What the backends of this machine share: one folder on the host, files from outside, one launcher per command."""

from __future__ import annotations

import re
import secrets
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from .files import WorkingFolder
from .interface import Changes, ExecResult, SandboxRefusal, SandboxSpec
from .limits import Watch
from .process import Outcome, Running
from .system_root import base_environment
from .users import copy_for_others, reachable_by
from .workspace import Workspace


@dataclass(frozen=True)
class Command:
    """One call of `exec`, complete. `cwd` is a path as commands see it."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str
    timeout_s: float
    stdin: bytes
    pass_fds: tuple[int, ...] = ()


class LocalSandbox(ABC):
    """A backend says how a command is launched (`_run`), and where the working folder appears inside."""

    def __init__(self, spec: SandboxSpec, user: int | None = None) -> None:
        """`user`: who the commands run as on the host, where that is not the caller."""
        self.spec = spec
        self.user = user
        self._snapshots: dict[str, dict[str, str]] = {}
        self._running: set[Running] = set()
        self._lock = threading.Lock()
        self._closed = False
        self.workspace = Workspace(spec.limits.disk_bytes, self.user)
        self._finalizer = weakref.finalize(self, self.workspace.remove)
        limits = spec.limits
        self._files = WorkingFolder(self.workspace.work, limits.file_bytes, limits.disk_bytes, self.user)
        try:
            if spec.tree is not None:
                self.workspace.fill(spec.tree, self.user)
            self.shown = self._folders_to_show()
        except BaseException:
            self.kill()
            raise

    @property
    @abstractmethod
    def backend(self) -> str: ...

    @property
    @abstractmethod
    def workdir(self) -> str: ...

    @abstractmethod
    def _environment(self) -> dict[str, str]: ...

    @abstractmethod
    def _run(self, command: Command) -> ExecResult: ...

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
        """`timeout_s` may shorten the limit of the sandbox, never lengthen it."""
        self._refuse_if_closed()
        if not argv or any("\0" in word for word in argv):
            raise SandboxRefusal(f"{list(argv)!r} is not a command")
        command = Command(
            tuple(argv),
            {**self._environment(), **self.spec.env, **(env or {})},
            self._inside(cwd),
            min(timeout_s or self.spec.limits.wall_s, self.spec.limits.wall_s),
            stdin,
            tuple(pass_fds),
        )
        return self._run(command)

    def read(self, path: str) -> bytes:
        self._refuse_if_closed()
        return self._files.read(path)

    def write(self, path: str, content: bytes) -> None:
        self._refuse_if_closed()
        self._files.write(path, content)

    def snapshot(self) -> str:
        self._refuse_if_closed()
        name = secrets.token_hex(8)
        self._snapshots[name] = self._files.digests()
        return name

    def diff(self, snapshot: str) -> Changes:
        self._refuse_if_closed()
        if snapshot not in self._snapshots:
            raise SandboxRefusal(f"no snapshot {snapshot!r} of this sandbox")
        return self._files.changes_since(self._snapshots[snapshot])

    def end_commands(self) -> None:
        """Those that run; the sandbox stays."""
        with self._lock:
            running = list(self._running)
        for command in running:
            command.end("killed")

    def kill(self) -> None:
        with self._lock:
            self._closed = True
        self.end_commands()
        self._finalizer()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.kill()

    def _folders_to_show(self) -> dict[str, Path]:
        """Path of the spec -> folder of the host. What the command's user could not reach is copied."""
        shown: dict[str, Path] = {}
        for number, (source, inside) in enumerate(self.spec.read_only.items()):
            if not source.exists():
                raise SandboxRefusal(f"{source} is to be shown as {inside} but is not there")
            shown[inside] = source.resolve()
            if not reachable_by(self.user, shown[inside]):
                shown[inside] = copy_for_others(shown[inside], self.workspace.private / f"folder-{number}")
        return shown

    @contextmanager
    def _tracked(self, running: Running) -> Generator[None]:
        """Inside, `kill` ends it; a sandbox killed meanwhile ends it at once."""
        with self._lock:
            self._running.add(running)
            closed = self._closed
        if closed:
            running.end("killed")
        try:
            yield
        finally:
            with self._lock:
                self._running.discard(running)

    def _finish(self, running: Running, command: Command, watched_pid: int) -> Outcome:
        limits, overfull = self.spec.limits, self.workspace.overfull
        return running.finish(command.stdin, limits, command.timeout_s, Watch(limits, watched_pid), overfull)

    def _inside(self, cwd: str | None) -> str:
        if cwd is None:
            return self.workdir
        return cwd if cwd.startswith("/") else f"{self.workdir}/{cwd}"

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise SandboxRefusal("this sandbox was killed")


class HostPathsSandbox(LocalSandbox):
    """Without a mount table: commands see the host's own paths, put where the spec's are mentioned."""

    def __init__(self, spec: SandboxSpec, user: int | None = None) -> None:
        super().__init__(spec, user)
        self._places = {spec.workdir: self.workdir, **{inside: str(path) for inside, path in self.shown.items()}}

    @property
    def workdir(self) -> str:
        return str(self.workspace.work)

    def _environment(self) -> dict[str, str]:
        return base_environment(str(self.workspace.area / "home"), str(self.workspace.area / "tmp"))

    def _rewritten(self, text: str) -> str:
        return rewrite_paths(text, self._places)


def rewrite_paths(text: str, places: Mapping[str, str]) -> str:
    """Whole paths and their children only: `/work/a` but neither `/workshop` nor `/home/work`."""
    present = [re.escape(inside) for inside in sorted(places, key=len, reverse=True) if inside in text]
    if not present:
        return text
    return re.sub(rf"(?<![\w./-])({'|'.join(present)})(?![\w.-])", lambda match: places[match[1]], text)
