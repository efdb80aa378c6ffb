"""Progress on the error stream: one live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from composer_replication.progress import Progress as ProgressProtocol

SECONDS_BETWEEN_LINES = 5.0


def open_progress() -> ProgressProtocol:
    return LivePanel() if sys.stderr.isatty() else PlainLines()


class PlainLines:
    """A line when a stage starts, and at most one every few seconds while it runs."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._stage = ""
        self._last = 0.0

    def stage(self, name: str, what: str) -> None:
        self._stage, self._last = name, time.monotonic()
        self._print(f"{name}: {what}")

    def step(self, done: int, total: int, detail: str = "") -> None:
        if done < total and time.monotonic() - self._last < SECONDS_BETWEEN_LINES:
            return
        self._last = time.monotonic()
        self._print(f"{self._stage}: {done}/{total} {detail}".rstrip())

    def note(self, text: str) -> None:
        self._print(text)

    def close(self) -> None:
        pass

    def _print(self, text: str) -> None:
        print(f"[{time.monotonic() - self._started:5.0f}s] {text}", file=sys.stderr, flush=True)


class LivePanel:
    """Finished stages stay above one moving bar."""

    def __init__(self) -> None:
        columns = (
            SpinnerColumn(finished_text="✓"),
            TextColumn("{task.description:<34}"),
            BarColumn(bar_width=28),
            TextColumn("{task.fields[detail]:<22}"),
            TimeElapsedColumn(),
        )
        self._progress = Progress(*columns, console=Console(stderr=True), transient=False)
        self._task: TaskID | None = None

    def stage(self, name: str, what: str) -> None:
        self._complete()
        self._progress.start()
        self._task = self._progress.add_task(what, total=None, detail="")

    def step(self, done: int, total: int, detail: str = "") -> None:
        if self._task is not None:
            self._progress.update(self._task, completed=done, total=total, detail=detail)

    def note(self, text: str) -> None:
        self._progress.console.print(text, highlight=False)

    def close(self) -> None:
        self._complete()
        self._progress.stop()

    def _complete(self) -> None:
        if self._task is not None:
            self._progress.update(self._task, total=1, completed=1)
            self._progress.stop_task(self._task)
