"""One running command, seen from the host: its input fed, its output read up to a cap, its time and size bounded.

Reads until the launcher has ended, which every backend lets happen only after the last process of the command has gone.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import threading
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import IO, Protocol

from .interface import Ending, ExecResult, Limits
from .limits import WATCH_EVERY_S, Watch

DISK_EVERY_S = 0.5
DRAIN_S = 1.0
READ_BYTES = 1 << 16


@dataclass
class Captured:
    """Output up to the cap; the rest is read and dropped, so that a writer never blocks on us."""

    limit_bytes: int
    chunks: list[bytes] = field(default_factory=list[bytes])
    kept_bytes: int = 0
    truncated: bool = False

    def add(self, chunk: bytes) -> None:
        room = self.limit_bytes - self.kept_bytes
        if len(chunk) > room:
            self.truncated = True
            chunk = chunk[:room]
        if chunk:
            self.chunks.append(chunk)
            self.kept_bytes += len(chunk)

    def text(self) -> bytes:
        return b"".join(self.chunks)


@dataclass(frozen=True)
class Outcome:
    """How the launcher ended; the backend makes an `ExecResult` of it."""

    returncode: int
    stdout: bytes
    stderr: bytes
    ending: Ending
    truncated: bool
    wall_s: float

    def result(self, code: int, out_of_memory: bool = False) -> ExecResult:
        ending = "memory" if out_of_memory else self.ending
        return ExecResult(
            128 - code if code < 0 else code, self.stdout, self.stderr, ending, self.wall_s, self.truncated
        )


class Process(Protocol):
    """What is needed of a `Popen`."""

    @property
    def pid(self) -> int: ...

    @property
    def stdin(self) -> IO[bytes] | None: ...

    @property
    def stdout(self) -> IO[bytes] | None: ...

    @property
    def stderr(self) -> IO[bytes] | None: ...

    def poll(self) -> int | None: ...

    def wait(self) -> int: ...


class Running:
    """A launcher with pipes for input and output. `end` kills the command; it may come from another thread."""

    def __init__(self, process: Process, kill: Callable[[], None], started: float) -> None:
        self._process = process
        self._kill = kill
        self._started = started
        self._ending: Ending = "exited"
        self._note = b""
        self._once = threading.Lock()

    def end(self, ending: Ending, note: str = "") -> None:
        with self._once:
            if self._ending == "exited" and self._process.poll() is None:
                self._ending = ending
                self._note = f"\nsandbox: {note}\n".encode() if note else b""
                self._kill()

    @contextlib.contextmanager
    def ended_on_error(self) -> Generator[None]:
        try:
            yield
        except BaseException:
            self.end("killed")
            self._process.wait()
            raise

    def finish(
        self, stdin: bytes, limits: Limits, timeout_s: float, watch: Watch, overfull: Callable[[], bool]
    ) -> Outcome:
        captured = {"stdout": Captured(limits.output_bytes), "stderr": Captured(limits.output_bytes)}
        deadline = self._started + timeout_s
        checks = _Checks(watch, overfull)
        with selectors.DefaultSelector() as selector:
            for name in captured:
                source: IO[bytes] = getattr(self._process, name)
                os.set_blocking(source.fileno(), False)
                selector.register(source, selectors.EVENT_READ, captured[name])
            self._offer(stdin, selector)
            ended = os.pidfd_open(self._process.pid)
            try:
                selector.register(ended, selectors.EVENT_READ, None)
                self._pump(selector, ended, deadline, checks)
            finally:
                os.close(ended)
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        returncode = self._process.wait()
        return Outcome(
            returncode,
            captured["stdout"].text(),
            captured["stderr"].text() + self._note,
            self._ending,
            any(stream.truncated for stream in captured.values()),
            time.monotonic() - self._started,
        )

    def _offer(self, stdin: bytes, selector: selectors.BaseSelector) -> None:
        pipe = self._process.stdin
        assert pipe is not None
        self._unsent = memoryview(stdin)
        if stdin:
            os.set_blocking(pipe.fileno(), False)
            selector.register(pipe, selectors.EVENT_WRITE, None)
        else:
            pipe.close()

    def _pump(self, selector: selectors.BaseSelector, ended: int, deadline: float, checks: _Checks) -> None:
        draining = False
        while True:
            now = time.monotonic()
            if now >= deadline:
                if draining:
                    return
                self.end("timeout", "the time limit was reached")
                deadline = now + 10.0
            if not draining and (passed := checks.look(now)):
                self.end("memory" if passed == "memory" else "killed", f"the limit on {passed} was passed")
            until_s = deadline - now
            for key, _ in selector.select(until_s if draining else min(until_s, checks.next_in_s(now))):
                if key.fileobj == ended:
                    selector.unregister(ended)
                    draining, deadline = True, time.monotonic() + DRAIN_S
                elif key.data is None:
                    self._feed(key.fd, selector)
                else:
                    self._take(key, selector)
            if draining and not any(key.data for key in selector.get_map().values()):
                return

    def _feed(self, descriptor: int, selector: selectors.BaseSelector) -> None:
        pipe = self._process.stdin
        assert pipe is not None
        try:
            self._unsent = self._unsent[os.write(descriptor, self._unsent[:READ_BYTES]) :]
        except BlockingIOError:
            return
        except BrokenPipeError:
            self._unsent = memoryview(b"")
        if not self._unsent:
            selector.unregister(pipe)
            pipe.close()

    @staticmethod
    def _take(key: selectors.SelectorKey, selector: selectors.BaseSelector) -> None:
        try:
            chunk = os.read(key.fd, READ_BYTES)
        except BlockingIOError:
            return
        if chunk:
            key.data.add(chunk)
        else:
            selector.unregister(key.fileobj)


class _Checks:
    """What is looked at from time to time; where the kernel holds every bound, nothing is and nobody wakes up."""

    def __init__(self, watch: Watch, overfull: Callable[[], bool]) -> None:
        self._checks: list[tuple[float, Callable[[], str]]] = [(DISK_EVERY_S, lambda: "disk" if overfull() else "")]
        if watch.needed:
            self._checks.append((WATCH_EVERY_S, watch.look))
        start = time.monotonic()
        self._due = [start + every_s for every_s, _ in self._checks]

    def look(self, now: float) -> str:
        for position, (every_s, check) in enumerate(self._checks):
            if now >= self._due[position]:
                self._due[position] = now + every_s
                if passed := check():
                    return passed
        return ""

    def next_in_s(self, now: float) -> float:
        return max(0.0, min(self._due) - now)
