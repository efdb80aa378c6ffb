"""No sandbox at all: commands run as the caller, on the host. Only for `backend="unsafe"`, which nothing else chooses.

It bounds time, output and what a process may use, removes its working folder, and stops nothing else: a command can
read, change and send whatever the caller can. For commands that you wrote yourself, on machines that allow no sandbox.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time

from .interface import ExecResult
from .limits import apply_limits, resource_limits
from .local import Command, HostPathsSandbox
from .process import Running

NOT_FOUND = 127
UNBOUNDED = 1 << 20  # processes: they would be counted with the caller's own


class UnsafeSandbox(HostPathsSandbox):
    @property
    def backend(self) -> str:
        return "unsafe"

    def _run(self, command: Command) -> ExecResult:
        started = time.monotonic()
        env = {name: self._rewritten(value) for name, value in command.env.items()}
        argv = [self._rewritten(word) for word in command.argv]
        program = shutil.which(argv[0], path=env["PATH"])
        if program is None:
            return ExecResult(NOT_FOUND, b"", f"{argv[0]}: not found\n".encode(), "exited", 0.0)
        process = subprocess.Popen(  # noqa: S603
            argv,
            executable=program,
            env=env,
            cwd=self._rewritten(command.cwd),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=command.pass_fds,
            start_new_session=True,
        )
        running = Running(process, lambda: _kill_group(process.pid), started)
        with self._tracked(running):
            try:
                apply_limits(process.pid, resource_limits(self.spec.limits, UNBOUNDED))
                outcome = self._finish(running, command, process.pid)
            finally:
                _kill_group(process.pid)
                process.wait()
        return outcome.result(outcome.returncode)


def _kill_group(leader: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)
