"""A progress display that keeps what it is told to say."""

from __future__ import annotations

from composer_replication.progress import Silent


class Notes(Silent):
    def __init__(self) -> None:
        self.said: list[str] = []

    def note(self, text: str) -> None:
        self.said.append(text)


class Lines(Notes):
    """Steps too, among the notes."""

    def step(self, done: int, total: int, detail: str = "", left_s: float | None = None) -> None:
        self.said.append(f"{done}/{total} {detail}")
