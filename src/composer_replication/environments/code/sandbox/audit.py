"""Which files of a sandbox's working folder the commands open, write, create, delete and move; by inotify.

Reads the kernel's queue around each command, so that what the host itself reads in between does not appear. Needs no
right but to read the folder. Works where the working folder lies on the host (bubblewrap, Landlock); a container's
does not, and is not audited.

Not seen: what happens outside the working folder; who did it; opens in a folder that the same command made (its files
count as created); reads through a descriptor or a hard link that was there before; folders beyond the user's number of
watches (counted). What the kernel's queue cannot hold is dropped by the kernel, and said.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Generator, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ...evidence import FileAct, FileEvent
from .interface import Sandbox
from .local import LocalSandbox

if TYPE_CHECKING:
    from inotify_simple import INotify

MOST_PER_COMMAND = 400
IN_MODIFY, IN_MOVED_FROM, IN_MOVED_TO, IN_CREATE, IN_DELETE, IN_OPEN = 0x2, 0x40, 0x80, 0x100, 0x200, 0x20
IN_Q_OVERFLOW, IN_IGNORED, IN_ISDIR = 0x4000, 0x8000, 0x40000000
IN_ONLYDIR, IN_DONT_FOLLOW = 0x1000000, 0x2000000
ACTS: dict[int, FileAct] = {
    IN_OPEN: "open",
    IN_MODIFY: "write",
    IN_CREATE: "create",
    IN_DELETE: "delete",
    IN_MOVED_FROM: "delete",
    IN_MOVED_TO: "move",
}
WATCHED = IN_OPEN | IN_MODIFY | IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_ONLYDIR | IN_DONT_FOLLOW
OFTEN_LEAKING = frozenset("build dist __pycache__ __pypackages__ node_modules htmlcov site-packages".split())


class Audit:
    """Of one working folder. A move is seen as where it went; where it came from is a delete. `close` may come from
    another thread."""

    def __init__(self, folder: Path, watch: INotify, kept_first: Iterable[str] = ()) -> None:
        """`kept_first` are paths that are kept whatever else there is."""
        self.seen: list[FileEvent] = []
        self.opened_per_step: list[int] = []
        """Different files that each step opened, also of those beyond the number that is kept."""
        self.left_out = 0
        self.events_lost = False
        self.unwatched_folders = 0
        self._root, self._kept_first = os.fspath(folder), frozenset(kept_first)
        self._watch = watch
        self._lock, self._marking = threading.Lock(), threading.Lock()
        self._folders: dict[int, str] = {}
        for _ in self._add_folders(""):
            pass

    @contextlib.contextmanager
    def step(self, number: int) -> Generator[None]:
        """What happens in the working folder inside this block belongs to the tool call of that number."""
        self._drain()
        try:
            yield
        finally:
            self._keep(number, self._drain())

    def mark(self, number: int) -> None:
        """What happened since the step began, or since the last mark, belongs to the tool call of that number."""
        with self._marking:
            self._keep(number, self._drain())

    def close(self) -> None:
        with self._lock:
            self._watch.close()

    def _keep(self, number: int, events: list[tuple[FileAct, str]]) -> None:
        """A path with a `/` in the end is a folder."""
        happened = list(dict.fromkeys(events))
        self.opened_per_step += [0] * (number + 1 - len(self.opened_per_step))
        self.opened_per_step[number] += sum(act == "open" for act, _ in happened)
        happened.sort(key=lambda event: self._rank(event[1]))
        self.left_out += len(happened[MOST_PER_COMMAND:])
        self.seen += [FileEvent(step=number, act=act, path=path) for act, path in happened[:MOST_PER_COMMAND]]

    def _rank(self, path: str) -> int:
        if path in self._kept_first:
            return 0
        parts = path.split("/")
        hidden = any(part in OFTEN_LEAKING or (part.startswith(".") and len(part) > 1) for part in parts)
        return 1 if hidden else 2

    def _drain(self) -> list[tuple[FileAct, str]]:
        with self._lock:
            if self._watch.closed:
                return []
            found: list[tuple[FileAct, str]] = []
            for event in self._watch.read(timeout=0):
                self._take(event.wd, event.mask, event.name, found)
            return found

    def _take(self, watch: int, mask: int, name: str, found: list[tuple[FileAct, str]]) -> None:
        if mask & IN_Q_OVERFLOW:
            self.events_lost = True
            return
        if mask & IN_IGNORED:
            self._folders.pop(watch, None)
            return
        parent = self._folders.get(watch)
        act: FileAct | None = next((act for bit, act in ACTS.items() if mask & bit), None)
        if parent is None or act is None or not name:
            return
        path = f"{parent}{name}"
        if not mask & IN_ISDIR:
            found.append((act, _printable(path)))
        elif act != "open":
            found.append((act, _printable(f"{path}/")))
            if act in ("create", "move"):
                for inside in self._add_folders(f"{path}/"):
                    found.append((act, _printable(inside)))

    def _add_folders(self, start: str) -> Iterator[str]:
        """Watch a folder and all below; gives the files that are in them."""
        waiting = [start]
        while waiting:
            folder = waiting.pop()
            place = os.path.join(self._root, folder)
            try:
                self._folders[self._watch.add_watch(place, WATCHED)] = folder
                entries = list(os.scandir(place))
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError:
                self.unwatched_folders += 1
                continue
            for entry in entries:
                inside = f"{folder}{entry.name}"
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(f"{inside}/")
                else:
                    yield inside


def audit_of(sandbox: Sandbox, kept_first: Iterable[str] = ()) -> Audit | None:
    """None where files cannot be watched: a container, a system without inotify, or too many watchers of this user."""
    if not isinstance(sandbox, LocalSandbox):
        return None
    try:
        from inotify_simple import INotify

        return Audit(sandbox.workspace.work, INotify(), kept_first)
    except (ImportError, OSError):
        return None


def _printable(path: str) -> str:
    return path.encode("utf-8", "backslashreplace").decode("utf-8")
