"""A progress display that keeps what it is told to say."""

from __future__ import annotations

from composer_replication.progress import Silent


class Notes(Silent):
    def __init__(self) -> None:
        self.said: list[str] = []

    def note(self, text: str) -> None:
        self.said.append(text)
