"""How long work tells a person where it is. Stages call this; the command line decides how it looks."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from threading import Event, Thread
from typing import Protocol


class Progress(Protocol):
    def stage(self, name: str, what: str) -> None:
        """A stage begins."""

    def step(self, done: int, total: int, detail: str = "", left_s: float | None = None) -> None:
        """The current stage has finished `done` of `total` steps. `left_s`: where it knows better than their pace."""

    def figures(self, lines: Sequence[str]) -> None:
        """A few lines under the current step, in place of those before."""

    def note(self, text: str) -> None:
        """One line worth keeping on the screen."""

    def close(self) -> None:
        """The work is over."""


class Silent(Progress):
    """Says nothing. Others say some of it."""


class LongerWork(Silent):
    """Of a longer stretch of work: its steps are those from `before` on, of `total`."""

    def __init__(self, progress: Progress, before: int, total: int, what: str = "") -> None:
        self._progress, self._before, self._total, self._what = progress, before, total, what

    def step(self, done: int, total: int, detail: str = "", left_s: float | None = None) -> None:
        self._progress.step(self._before + done, self._total, self._what or detail)

    def note(self, text: str) -> None:
        self._progress.note(text)


@contextmanager
def repeating(tell: Callable[[], None], every_s: float) -> Generator[None]:
    """Meanwhile `tell` is called again and again, from a thread."""
    over = Event()

    def repeat() -> None:
        while not over.wait(every_s):
            tell()

    thread = Thread(target=repeat, name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
