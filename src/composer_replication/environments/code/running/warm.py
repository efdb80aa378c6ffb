"""A warm test process: one sandbox, one interpreter with the dependencies loaded, one fork per run.

The caller's side of `fork_server.py`. Everything that belongs to the repository runs inside the sandbox. Only `passed`
is passed: an id without a record has not passed.
"""

from __future__ import annotations

import json
import os
import select
import struct
import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from composer_replication.errors import RecomposeError, UsageError

from ...untrusted import read_json
from ..sandbox.interface import MIB, ExecResult, Limits, SandboxSpec
from ..sandbox.open import open_sandbox
from ..sandbox.toolchain import toolchain
from ..tasks.repository import Repository, module_name
from ..tasks.task import Symbol

START_S = 60.0
SPARE_S = 30.0
ALL_DAY_S = 24 * 3600.0
MOST_ANSWER_BYTES = 256 * MIB
LIMITS = Limits(
    wall_s=ALL_DAY_S,
    cpu_s=24 * 3600,
    memory_bytes=2048 * MIB,
    processes=128,
    open_files=1024,
    disk_bytes=512 * MIB,
)


class RunnerEnded(RecomposeError):
    """The warm process is gone or talks nonsense: killed for memory, or the repository's own code got at it."""


@dataclass(frozen=True)
class TestSetup:
    """What the tests of a repository need besides itself, and where they run."""

    distributions: tuple[str, ...] = ("pytest",)
    backend: str = "auto"

    __test__ = False

    @property
    def plugins(self) -> tuple[str, ...]:
        """Modules that the distributions offer to pytest; pytest itself looks for none."""
        return tuple(sorted({name for given in self.distributions for name in _pytest_entry_points(given)}))


class WarmRunner(AbstractContextManager["WarmRunner", None]):
    """Use as a context manager, or call `close`. Not for several threads at once."""

    def __init__(
        self,
        repository: Repository,
        setup: TestSetup | None = None,
        *,
        hash_seed: int = 0,
        preload: Iterable[str] = (),
    ) -> None:
        self._repository, self._setup = repository, setup or TestSetup()
        self._hash_seed, self._preload = hash_seed, tuple(preload)
        self.cpu_s = 0.0
        """Of all runs so far."""
        self._start()

    def run(self, request: RunRequest) -> TestRun:
        """One run; a process that dies is started again, once."""
        try:
            run = self._ask(request)
        except RunnerEnded:
            self.close()
            self._start()
            run = self._ask(request)
        self.cpu_s += run.cpu_s
        return run

    def close(self) -> None:
        """Twice is fine."""
        for pipe in (self._requests, self._answers):
            if pipe >= 0:
                os.close(pipe)
        self._requests = self._answers = -1
        self._sandbox.kill()
        self._thread.join(timeout=10)

    def __exit__(self, *raised: object) -> None:
        self.close()

    def _ask(self, request: RunRequest) -> TestRun:
        self._send(request.as_json())
        answer = self._receive(2 * request.timeout_s + SPARE_S)
        try:
            return read_run(answer)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise self._gone() from error

    def _start(self) -> None:
        tools = toolchain(self._setup.distributions, exclude=self._repository.packages)
        env = {
            **tools.env,
            "PYTHONHASHSEED": str(self._hash_seed),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "LANG": "C.UTF-8",
        }
        spec = SandboxSpec(tree=self._repository.tree, read_only=tools.read_only, env=env, limits=LIMITS)
        self._sandbox = open_sandbox(spec, self._setup.backend)
        for_server, self._requests = os.pipe()
        self._answers, from_server = os.pipe()
        self._ended: ExecResult | BaseException | None = None
        argv = [tools.python, "-s", "-P", "-", str(for_server), str(from_server)]
        self._thread = threading.Thread(target=self._serve, args=(argv, for_server, from_server), daemon=True)
        self._thread.start()
        settings = {
            "preload": list(self._preload),
            "packages": list(self._repository.packages),
            "source_roots": list(self._repository.source_roots),
            "plugins": list(self._setup.plugins),
            "selection": list(self._repository.selection),
        }
        self._send(settings)
        hello = self._receive(START_S)
        self.cpu_s += hello["cpu_s"]
        if hello["loaded_targets"]:
            self.close()
            raise UsageError(
                f"what runs the tests loads {hello['loaded_targets'][0]} itself", "choose another repository"
            )

    def _serve(self, argv: list[str], for_server: int, from_server: int) -> None:
        source = Path(__file__).with_name("fork_server.py").read_bytes()
        try:
            self._ended = self._sandbox.exec(
                argv, stdin=source, pass_fds=(for_server, from_server), timeout_s=ALL_DAY_S
            )
        except BaseException as error:  # told to the caller in its own thread
            self._ended = error
        finally:
            os.close(for_server)
            os.close(from_server)

    def _send(self, value: dict[str, Any]) -> None:
        content = json.dumps(value).encode()
        message = struct.pack(">I", len(content)) + content
        try:
            while message:
                message = message[os.write(self._requests, message) :]
        except BrokenPipeError as error:
            raise self._gone() from error

    def _receive(self, timeout_s: float) -> dict[str, Any]:
        deadline = time.monotonic() + timeout_s
        size = struct.unpack(">I", self._read(4, deadline))[0]
        if size > MOST_ANSWER_BYTES:
            raise self._gone()
        try:
            return read_json(self._read(size, deadline))
        except ValueError as error:
            raise self._gone() from error

    def _read(self, count: int, deadline: float) -> bytes:
        parts: list[bytes] = []
        while count:
            if not self._has_answer(0.2):
                if not self._thread.is_alive() or time.monotonic() > deadline:
                    raise self._gone()
                continue
            part = os.read(self._answers, min(count, 1 << 20))
            if not part:
                raise self._gone()
            parts.append(part)
            count -= len(part)
        return b"".join(parts)

    def _has_answer(self, timeout_s: float) -> bool:
        """By `poll`: `select` knows no descriptor above 1023, and a busy process has those."""
        waiting = select.poll()
        waiting.register(self._answers, select.POLLIN)
        return bool(waiting.poll(timeout_s * 1000))

    def _gone(self) -> RecomposeError:
        self._thread.join(timeout=1)
        if isinstance(self._ended, RecomposeError):
            return self._ended
        said = self._ended.stderr.decode(errors="replace")[-500:] if isinstance(self._ended, ExecResult) else ""
        return RunnerEnded(
            f"the test process of {self._repository.name} ended ({self._ended_as()}) {said}".strip(),
            "run the same command again",
        )

    def _ended_as(self) -> str:
        if isinstance(self._ended, ExecResult):
            return f"{self._ended.ending}, exit code {self._ended.exit_code}"
        return str(self._ended or "no answer that can be read, or none in time")


def _pytest_entry_points(name: str) -> set[str]:
    try:
        found = distribution(name)
    except PackageNotFoundError as error:
        raise UsageError(f"{name} is not installed next to recompose", f"pip install {name}") from error
    return {entry.module for entry in found.entry_points if entry.group == "pytest11"}


@dataclass(frozen=True)
class RunRequest:
    """One run on the original tree with some edits."""

    edits: Mapping[str, str | None] = field(default_factory=dict[str, str | None])
    tests: tuple[str, ...] = ()
    """Files to collect; empty: run none."""
    only: frozenset[str] | None = None
    """Keep these ids of what was collected; None: all."""
    imports: tuple[str, ...] = ()
    """Modules to import first, in a process of their own; tests are not run where one fails."""
    imports_must_work: bool = True
    reverse: bool = False
    trace: bool = False
    stop_at_failure: bool = False
    timeout_s: float = 120.0
    cpu_s: int = 0
    """Of processor time for the tests, in whole seconds; 0: no limit."""

    def as_json(self) -> dict[str, Any]:
        values = dict(vars(self))
        return values | {"edits": dict(self.edits), "only": None if self.only is None else sorted(self.only)}


@dataclass(frozen=True)
class TestRun:
    outcomes: dict[str, str]
    collect_errors: dict[str, str]
    import_errors: dict[str, str]
    ran: dict[str, frozenset[Symbol]]
    """Per test, when it was traced."""
    at_import: frozenset[Symbol]
    loaded: tuple[str, ...]
    """Modules from outside the tree that were loaded at the end."""
    timed_out: bool
    output: str
    cpu_s: float
    wall_s: float
    cpu_by_test: dict[str, float] = field(default_factory=dict[str, float])
    """With what it started; to a hundredth of a second."""
    exit_code: int | None = None
    """Of pytest."""

    __test__ = False

    @property
    def passed(self) -> frozenset[str]:
        return frozenset(test for test, outcome in self.outcomes.items() if outcome == "passed")


def read_run(answer: Mapping[str, Any]) -> TestRun:
    entries: list[dict[str, Any]] = answer.get("entries", [])
    tests = [entry for entry in entries if "test" in entry]
    outcomes: dict[str, str] = {}
    for entry in tests:
        before = outcomes.get(entry["test"], "passed")
        outcomes[entry["test"]] = entry["outcome"] if before == "passed" else before
    return TestRun(
        outcomes=outcomes,
        collect_errors={entry["collect_error"]: entry["text"] for entry in entries if "collect_error" in entry},
        import_errors=dict(answer["import_errors"]),
        ran={entry["test"]: _symbols(entry["ran"]) for entry in tests if entry["ran"]},
        at_import=_symbols(seen for entry in entries for seen in entry.get("at_import", ())),
        loaded=tuple(sorted({name for entry in entries for name in entry.get("loaded", ())})),
        timed_out=bool(answer.get("timed_out")),
        output=str(answer.get("output", "")),
        cpu_s=float(answer["cpu_s"]),
        wall_s=float(answer["wall_s"]),
        cpu_by_test={entry["test"]: float(entry["cpu_s"]) for entry in tests},
        exit_code=answer.get("exit_code"),
    )


def _symbols(seen: Iterable[list[str]]) -> frozenset[Symbol]:
    return frozenset(Symbol(file=file, name=name) for file, name in seen)


def module_names(repository: Repository) -> dict[str, str]:
    """Importable name -> file, for every source file but programs (`__main__`)."""
    named = {module_name(path, repository.source_roots): path for path in repository.source_files}
    return {
        name: path
        for name, path in named.items()
        if all(part.isidentifier() and part != "__main__" for part in name.split("."))
    }
