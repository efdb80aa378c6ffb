"""Bounds on one command: resource limits of its processes, a control group where one can be made, else a watch.

Reads /proc and /sys/fs/cgroup, writes control groups below the caller's own and removes them after the command.

Not stopped: `cpu_s` is of each process, so that a command of many processes is bounded by the wall clock only; the
watch looks every 50 ms, so that a quick burst goes over its limit before the command is killed.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import resource
import signal
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

from .interface import MIB, Limits, SandboxFailure

CGROUP_ROOT = Path("/sys/fs/cgroup")
WATCH_EVERY_S = 0.05
EXTRA_PROCESSES = 3  # the launcher's own, next to the command's
LINGERING = 512
"""The kernel is late to take ended processes off a user's count: on a busy machine those of earlier commands still
stand there. Where a control group holds the exact bound, the user's may be wide."""
_names = itertools.count()
GROUP_NAME = "recompose"


def resource_limits(limits: Limits, processes: int) -> dict[int, int]:
    """Soft and hard the same, none above what this process has. `processes` is counted per user: see the backends."""
    wanted = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_CPU: limits.cpu_s,
        resource.RLIMIT_DATA: limits.memory_bytes,
        resource.RLIMIT_FSIZE: limits.file_bytes,
        resource.RLIMIT_NOFILE: limits.open_files,
        resource.RLIMIT_STACK: 8 * MIB,
        resource.RLIMIT_MEMLOCK: 8 * MIB,
        resource.RLIMIT_MSGQUEUE: 0,
        resource.RLIMIT_NPROC: processes + EXTRA_PROCESSES + (LINGERING if counted_by_the_kernel("pids") else 0),
    }
    hard = {name: resource.getrlimit(name)[1] for name in wanted}
    return {
        name: value if hard[name] == resource.RLIM_INFINITY else min(value, hard[name])
        for name, value in wanted.items()
    }


def apply_limits(pid: int, limits: Mapping[int, int]) -> None:
    """To a process of the same user."""
    for name, value in limits.items():
        resource.prlimit(pid, name, (value, value))


class Controller(NamedTuple):
    """A folder under which a group with one or both controllers can be made."""

    folder: Path
    version: int
    names: tuple[str, ...]


@cache
def controllers() -> tuple[Controller, ...]:
    """Where memory and processes can be counted by the kernel; empty where this user may not make groups."""
    found: list[Controller] = []
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines():
            _, names, path = line.split(":", 2)
            if names in {"memory", "pids"}:
                found.append(Controller(CGROUP_ROOT / names / path.lstrip("/"), 1, (names,)))
            elif not names and (CGROUP_ROOT / "cgroup.controllers").exists():
                found += _version_two(CGROUP_ROOT / path.lstrip("/"))
    usable = tuple(controller for controller in found if _works(controller))
    for controller in usable:
        _sweep(controller.folder)
    return usable


def _version_two(own: Path) -> list[Controller]:
    """The own group holds processes and so may have no children with controllers; the one above often may."""
    for folder in (own, own.parent):
        with contextlib.suppress(OSError):
            enabled = (folder / "cgroup.subtree_control").read_text(encoding="utf-8").split()
            if folder.is_relative_to(CGROUP_ROOT) and {"memory", "pids"} <= set(enabled):
                return [Controller(folder, 2, ("memory", "pids"))]
    return []


def _sweep(folder: Path) -> None:
    """Groups of processes that were killed; the kernel keeps those that still hold somebody."""
    for left in folder.glob(f"{GROUP_NAME}-*-*"):
        owner = left.name.split("-")[1]
        if owner.isdigit() and not Path("/proc", owner).exists():
            with contextlib.suppress(OSError):
                left.rmdir()


def _works(controller: Controller) -> bool:
    try:
        group = CommandGroup(Limits(), (controller,))
    except OSError:
        return False
    group.close()
    return True


class CommandGroup:
    """The control groups of one command: `add` its first process before that runs, `close` after the last has gone."""

    def __init__(self, limits: Limits, places: tuple[Controller, ...] | None = None) -> None:
        self._groups: list[tuple[Controller, Path]] = []
        name = f"{GROUP_NAME}-{os.getpid()}-{next(_names)}"
        try:
            for place in controllers() if places is None else places:
                folder = place.folder / name
                folder.mkdir()
                self._groups.append((place, folder))
                self._configure(place, folder, limits)
        except OSError:
            self.close()
            raise

    @staticmethod
    def _configure(place: Controller, folder: Path, limits: Limits) -> None:
        if "pids" in place.names:
            (folder / "pids.max").write_text(str(limits.processes + EXTRA_PROCESSES), encoding="utf-8")
        if "memory" in place.names and place.version == 1:
            (folder / "memory.limit_in_bytes").write_text(str(limits.memory_bytes), encoding="utf-8")
            with contextlib.suppress(OSError):
                (folder / "memory.memsw.limit_in_bytes").write_text(str(limits.memory_bytes), encoding="utf-8")
        elif "memory" in place.names:
            (folder / "memory.max").write_text(str(limits.memory_bytes), encoding="utf-8")
            for file, value in (("memory.swap.max", "0"), ("memory.oom.group", "1")):
                with contextlib.suppress(OSError):
                    (folder / file).write_text(value, encoding="utf-8")

    def add(self, pid: int) -> None:
        for _, folder in self._groups:
            (folder / "cgroup.procs").write_text(str(pid), encoding="utf-8")

    def ran_out_of_memory(self) -> bool:
        for place, folder in self._groups:
            if "memory" in place.names:
                file = folder / ("memory.oom_control" if place.version == 1 else "memory.events")
                counts = dict(line.split() for line in file.read_text(encoding="utf-8").splitlines())
                return int(counts.get("oom_kill", 0)) > 0
        return False

    def close(self) -> None:
        deadline = time.monotonic() + 2.0
        while self._groups:
            _, folder = self._groups[-1]
            try:
                folder.rmdir()
            except FileNotFoundError:
                pass
            except OSError:
                if time.monotonic() < deadline:
                    _kill_members(folder)
                    time.sleep(0.002)
                    continue
            self._groups.pop()


def new_group(limits: Limits) -> CommandGroup:
    try:
        return CommandGroup(limits)
    except OSError as error:
        raise SandboxFailure(f"no control group could be made: {error}") from None


def _kill_members(folder: Path) -> None:
    with contextlib.suppress(OSError):
        for pid in (folder / "cgroup.procs").read_text(encoding="utf-8").split():
            with contextlib.suppress(OSError):
                os.kill(int(pid), signal.SIGKILL)


def counted_by_the_kernel(name: str) -> bool:
    return any(name in controller.names for controller in controllers())


def threads_below(pid: int) -> dict[int, int]:
    """Descendant -> its number of threads, the process itself included. What ends meanwhile is left out."""
    found: dict[int, int] = {}
    waiting = [pid]
    while waiting:
        current = waiting.pop()
        with contextlib.suppress(OSError):
            tasks = os.listdir(f"/proc/{current}/task")
            found[current] = len(tasks)
            for task in tasks:
                waiting += [int(child) for child in _text(f"/proc/{current}/task/{task}/children").split()]
    return found


def resident_bytes(pid: int) -> int:
    """Pages that several processes share count in full for each."""
    try:
        return int(_text(f"/proc/{pid}/statm").split()[1]) * resource.getpagesize()
    except (OSError, IndexError):
        return 0


def proportional_bytes(pid: int) -> int:
    """Shared pages divided by their users; slower to read."""
    try:
        lines = _text(f"/proc/{pid}/smaps_rollup").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
    except (OSError, StopIteration):
        return resident_bytes(pid)


def threads_of_user(user: int) -> int:
    total = 0
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if entry.stat().st_uid == user:
                    total += os.stat(f"/proc/{entry.name}/task").st_nlink - 2
    return total


def _text(path: str) -> str:
    with open(path, encoding="ascii") as file:
        return file.read()


@dataclass
class Watch:
    """Looks at a command while it runs, for what the kernel does not bound here."""

    limits: Limits
    pid: int

    @property
    def needed(self) -> bool:
        return not (counted_by_the_kernel("memory") and counted_by_the_kernel("pids"))

    def look(self) -> str:
        """The limit that was passed; empty where none was."""
        members = threads_below(self.pid)
        if sum(members.values()) > self.limits.processes + EXTRA_PROCESSES:
            return "processes"
        return "memory" if self._holds_too_much(members) else ""

    def _holds_too_much(self, members: Iterable[int]) -> bool:
        """The slow measure only where the quick one, which is never below it, is over the limit."""
        measures = (resident_bytes, proportional_bytes)
        return all(sum(map(measure, members)) > self.limits.memory_bytes for measure in measures)
