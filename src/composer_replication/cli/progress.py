"""Progress on the error stream: one live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Iterable, Sequence
from datetime import timedelta

from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.text import Text

from composer_replication.progress import Progress as ProgressProtocol

SECONDS_BETWEEN_LINES = 5.0
SECONDS_OF_PACE = 60.0


def open_progress() -> ProgressProtocol:
    return LivePanel() if sys.stderr.isatty() else PlainLines()


class Pace:
    """Time left by the pace of the last minute: what a resumed run finds done says nothing about the rest."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()

    def left(self, done: int, total: int, now: float) -> float | None:
        """Seconds; None at the end and where nothing is known yet."""
        # A step may tell of its parts: only one that is done says how long a step takes.
        if not self._seen or (done != self._seen[-1][1] and now - self._seen[-1][0] >= 1):
            self._seen.append((now, done))
        while len(self._seen) > 2 and now - self._seen[1][0] > SECONDS_OF_PACE:
            self._seen.popleft()
        (began, before), (ended, known) = self._seen[0], self._seen[-1]
        return (ended - began) * (total - done) / (known - before) if before < known and done < total else None


def _told(left_s: float | None) -> str:
    return f"{timedelta(seconds=round(left_s))} left" if left_s else ""


class PlainLines(ProgressProtocol):
    """A line when a stage starts, and at most one every few seconds while it runs, with the time that is left."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._pace = Pace()
        self._stage = ""
        self._last = self._counted = 0.0
        self._done = 0
        self._figures: Sequence[str] = ()

    def stage(self, name: str, what: str) -> None:
        self._stage, self._figures, self._pace, self._done = name, (), Pace(), 0
        self._last = self._counted = time.monotonic()
        self._print(f"{name}: {what}")

    def step(self, done: int, total: int, detail: str = "", left_s: float | None = None) -> None:
        now = time.monotonic()
        left = _told(left_s or self._pace.left(done, total, now))
        # A word about a step under way does not silence the line of the step itself.
        said = self._last if done == self._done else self._counted
        if done < total and now - said < SECONDS_BETWEEN_LINES:
            return
        self._last, self._counted, self._done = now, self._counted if done == self._done else now, done
        told = ", ".join(filter(None, (detail, left)))
        self._print(f"{self._stage}: {done}/{total} {told}".rstrip())
        for line in self._figures:
            self._print(f"  {line}")

    def figures(self, lines: Sequence[str]) -> None:
        self._figures = lines

    def note(self, text: str) -> None:
        self._print(text)

    def _print(self, text: str) -> None:
        print(f"[{time.monotonic() - self._started:5.0f}s] {text}", file=sys.stderr, flush=True)


class _Bars(Progress):
    """Bars, and some lines under them."""

    lines: Sequence[str] = ()

    def get_renderables(self) -> Iterable[RenderableType]:
        yield self.make_tasks_table(self.tasks)
        yield from (Text(f"  {line}", overflow="ellipsis", no_wrap=True) for line in self.lines)


class LivePanel:
    """Finished stages stay above one moving bar and its figures."""

    def __init__(self) -> None:
        columns = (
            SpinnerColumn(finished_text="✓"),
            TextColumn("{task.description:<34}"),
            BarColumn(bar_width=28),
            TextColumn("{task.fields[detail]:<22}"),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}"),
        )
        self._progress = _Bars(*columns, console=Console(stderr=True), transient=False)
        self._task: TaskID | None = None
        self._pace = Pace()

    def stage(self, name: str, what: str) -> None:
        self._complete()
        self._progress.start()
        self._task, self._pace = self._progress.add_task(what, total=None, detail="", left=""), Pace()

    def step(self, done: int, total: int, detail: str = "", left_s: float | None = None) -> None:
        if self._task is not None:
            left = _told(left_s or self._pace.left(done, total, time.monotonic()))
            self._progress.update(self._task, completed=done, total=total, detail=detail, left=left)

    def figures(self, lines: Sequence[str]) -> None:
        self._progress.lines = lines

    def note(self, text: str) -> None:
        self._progress.console.print(text, highlight=False)

    def close(self) -> None:
        self._complete()
        self._progress.stop()

    def _complete(self) -> None:
        self._progress.lines = ()
        if self._task is not None:
            self._progress.update(self._task, total=1, completed=1)
            self._progress.stop_task(self._task)
