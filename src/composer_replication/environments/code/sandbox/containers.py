"""Docker and podman by their command line: one container per sandbox, with all rights taken off.

Reads the image named by $RECOMPOSE_SANDBOX_IMAGE. The working folder lies on this machine and is shown to the
container, so the engine must be local. Not offered: `pass_fds`; and a command killed for its memory ends as `exited`
with code 137. What the engine itself does not stop is not stopped.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import time
from functools import partial

from .interface import ExecResult, SandboxFailure, SandboxRefusal, SandboxSpec
from .limits import EXTRA_PROCESSES
from .local import Command, LocalSandbox
from .process import Running
from .system_root import DEFAULT_PATH, HOST_NAME, USER_ID, base_environment

DEFAULT_IMAGE = "docker.io/library/python:3.11-slim"
HOME = "/home/agent"


class ContainerSandbox(LocalSandbox):
    def __init__(self, spec: SandboxSpec, engine: str) -> None:
        self._engine = engine
        super().__init__(spec, USER_ID if os.getuid() == 0 else None)
        self._name = f"recompose-{secrets.token_hex(8)}"
        image = os.environ.get("RECOMPOSE_SANDBOX_IMAGE", DEFAULT_IMAGE)
        try:
            self._call("run", "--detach", "--rm", "--name", self._name, *self._options(), image, "sleep", "infinity")
        except BaseException:
            self.kill()
            raise

    @property
    def backend(self) -> str:
        return self._engine

    @property
    def workdir(self) -> str:
        return self.spec.workdir

    def kill(self) -> None:
        if not self._closed and hasattr(self, "_name"):
            self._call("rm", "--force", self._name, may_fail=True)
        super().kill()

    def _environment(self) -> dict[str, str]:
        return base_environment(HOME, "/tmp") | {"PATH": f"/usr/local/bin:{DEFAULT_PATH}"}  # noqa: S108

    def _options(self) -> list[str]:
        limits = self.spec.limits
        user = os.getuid() if self.user is None else self.user
        options = ["--network", "none", "--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges"]
        options += ["--user", f"{user}:{user}", "--hostname", HOST_NAME, "--init"]
        options += ["--memory", str(limits.memory_bytes), "--memory-swap", str(limits.memory_bytes)]
        options += ["--pids-limit", str(limits.processes + EXTRA_PROCESSES), "--ulimit", "core=0"]
        options += ["--ulimit", f"nofile={limits.open_files}", "--ulimit", f"fsize={limits.file_bytes}"]
        for part, inside in (("work", self.spec.workdir), ("tmp", "/tmp"), ("home", HOME)):  # noqa: S108
            options += ["--volume", f"{self.workspace.area / part}:{inside}"]
        for inside, source in self.shown.items():
            options += ["--volume", f"{source}:{inside}:ro"]
        return options

    def _run(self, command: Command) -> ExecResult:
        if command.pass_fds:
            raise SandboxRefusal("a container cannot be handed open files", "use the backend bubblewrap")
        started = time.monotonic()
        settings = [word for name, value in command.env.items() for word in ("--env", f"{name}={value}")]
        process = subprocess.Popen(  # noqa: S603
            [self._engine, "exec", "--interactive", "--workdir", command.cwd, *settings, self._name, *command.argv],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        running = Running(process, self._kill_commands, started)
        try:
            with self._tracked(running):
                outcome = self._finish(running, command, process.pid)
        finally:
            self._kill_commands()
        return outcome.result(outcome.returncode)

    def _kill_commands(self) -> None:
        """Everything of the user but the container's first process."""
        self._call("exec", self._name, "sh", "-c", "kill -9 -1", may_fail=True)

    def _call(self, *words: str, may_fail: bool = False) -> None:
        done = subprocess.run([self._engine, *words], capture_output=True, text=True, check=False)  # noqa: S603
        if done.returncode and not may_fail:
            raise SandboxFailure(f"{self._engine} {words[0]} failed: {done.stderr[-300:]}", f"{self._engine} info")


def why_unavailable(engine: str) -> str:
    if shutil.which(engine) is None:
        return f"there is no program {engine} on the PATH"
    done = subprocess.run([engine, "info"], capture_output=True, text=True, check=False)  # noqa: S603
    return "" if done.returncode == 0 else f"{engine} info failed: {done.stderr[-200:].strip()}"


open_docker = partial(ContainerSandbox, engine="docker")
open_podman = partial(ContainerSandbox, engine="podman")
why_no_docker = partial(why_unavailable, "docker")
why_no_podman = partial(why_unavailable, "podman")
